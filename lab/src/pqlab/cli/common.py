"""Options that several verbs share, spelled once."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pqlab.scenario import Overrides


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
    parser.add_argument(
        "--suites",
        action="append",
        metavar="GLOB",
        help="suites instead of the scenario's; repeat or separate by commas",
    )
    parser.add_argument("--reps", type=int, metavar="N", help="repetitions of each suite and condition")


def overrides_of(args: argparse.Namespace) -> Overrides:
    suites: list[str] | None = None
    if args.suites:
        suites = [part.strip() for text in args.suites for part in text.split(",") if part.strip()]
    return Overrides(args.session_s, tuple(suites) if suites else None, args.reps)


def add_inventory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inventory", metavar="FILE", help="hosts and agents (default: ansible/inventories/lab.ini)"
    )
    parser.add_argument(
        "--keys", metavar="DIR", help="identities made by `make keys` (default: the inventory's)"
    )


def add_out(parser: argparse.ArgumentParser, help_text: str = "results folder (default: results)") -> None:
    parser.add_argument("--out", metavar="DIR", help=help_text)


def print_json(document: Any) -> None:
    """One line, so that the last line of standard output is the document."""
    print(json.dumps(document, separators=(",", ":")))
