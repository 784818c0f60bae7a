"""Options that several verbs share, spelled once."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pqevidence.errors import UsageError
from pqevidence.paths import shown
from pqevidence.scenario import Overrides


def add_scenario(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    parser.add_argument(
        "scenario",
        nargs="?" if optional else None,
        metavar="SCENARIO",
        help="name in scenarios/, or path of a .yml file",
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session-s", type=float, metavar="S", help="length of the MAVLink session of a cell"
    )
    _add_list(parser, "--suites", "GLOB", "suites instead of the scenario's")
    parser.add_argument("--reps", type=int, metavar="N", help="repetitions of each suite and condition")
    parser.add_argument(
        "--with",
        dest="overlays",
        action="append",
        metavar="OVERLAY",
        help="overlay laid over the scenario (name in scenarios/overlays/, or path); repeat for more",
    )
    _add_list(parser, "--level", "L", "only suites of this NIST level (1, 3, 5)")
    _add_list(parser, "--family", "NAME", "only suites with this KEM or signature family, or this AEAD")
    _add_list(parser, "--tag", "TAG", "only suites of this lifecycle (standard, draft, …)")
    _add_list(parser, "--condition", "NAME", "only this condition")
    _add_list(parser, "--only", "ID", "only cells whose id begins so")


def _add_list(parser: argparse.ArgumentParser, option: str, metavar: str, text: str) -> None:
    parser.add_argument(
        option, action="append", metavar=metavar, help=f"{text}; repeat or separate by commas"
    )


def listed(values: list[str] | None) -> tuple[str, ...]:
    """Every item of a repeated option, commas taken apart."""
    return tuple(part.strip() for text in values or [] for part in text.split(",") if part.strip())


def overrides_of(args: argparse.Namespace) -> Overrides:
    """The options as they were given. Raises UsageError for a level that is no number."""
    levels = listed(args.level)
    for level in levels:
        if level not in ("1", "3", "5"):
            raise UsageError(
                "bad-level", f"--level {level} is no NIST level", "suites have level 1, 3 or 5", "--level 3"
            )
    return Overrides(
        session_s=args.session_s,
        suites=listed(args.suites) or None,
        repetitions=args.reps,
        overlays=tuple(args.overlays or ()),
        levels=tuple(int(level) for level in levels),
        families=listed(args.family),
        tags=listed(args.tag),
        conditions=listed(args.condition) or None,
        only=listed(args.only),
    )


def add_inventory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inventory", metavar="FILE", help="hosts and agents (default: ansible/inventories/lab.ini)"
    )
    parser.add_argument(
        "--keys", metavar="DIR", help="identities made by `make keys` (default: the inventory's)"
    )


def add_pair(
    parser: argparse.ArgumentParser, help_text: str = "of an inventory of several pairs: which"
) -> None:
    parser.add_argument("--pair", metavar="NAME", help=help_text)


def add_out(parser: argparse.ArgumentParser, help_text: str = "results folder (default: results)") -> None:
    parser.add_argument("--out", metavar="DIR", help=help_text)


def add_bundle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", nargs="?", metavar="BUNDLE", help="path or run id (default: results/latest)"
    )


def out_folder(out: str | None, default: Path) -> Path:
    """The folder that --out names, or the default. Raises UsageError for one within a sealed bundle."""
    folder = Path(out) if out else default
    outside_bundles(folder)
    return folder


def outside_bundles(folder: Path) -> None:
    """Raises UsageError for a folder within a sealed bundle, this one or another."""
    there = folder.resolve()
    for outer in (there, *there.parents):
        if (outer / "tagmanifest-sha512.txt").is_file():
            raise UsageError(
                "sealed",
                f"--out {shown(folder)} lies in the sealed bundle {outer.name}",
                "a sealed bundle is never written to",
                "name a folder outside it, or leave --out out",
            )


def print_json(document: object) -> None:
    """One line, so that the last line of standard output is the document."""
    print(json.dumps(document, separators=(",", ":")))


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[None]:
    """SIGTERM and SIGINT are Ctrl-C."""

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    # a shell starts what it puts into the background with SIGINT ignored: `kill -INT` would do nothing
    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
