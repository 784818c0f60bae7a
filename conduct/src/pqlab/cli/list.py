"""`pqlab list`: what can be run, what can be laid over it, and what was measured. Reads files only."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from pqbase.documents import Json, counts_of
from pqevidence.errors import EXIT_OK, LabError
from pqevidence.paths import results_dir, shown
from pqevidence.scenario import available_overlays, available_scenarios
from pqevidence.terminal import COLUMNS
from pqlab.cli.common import add_out, print_json

HELP = "list scenarios, overlays and bundles"
KINDS = ("scenarios", "overlays", "bundles")
#: what to do with one of a kind
_USE = {
    "scenarios": "./pqlab plan NAME tells cells and time, ./pqlab run NAME measures",
    "overlays": "./pqlab run SCENARIO --with NAME",
    "bundles": "./pqlab report NAME, ./pqlab verify NAME",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", choices=KINDS, metavar="KIND", help="scenarios, overlays or bundles (default: all)"
    )
    add_out(parser, "results folder whose bundles are listed (default: results)")


def run(args: argparse.Namespace) -> int:
    """Always 0: what cannot be read is listed with the reason."""
    results = results_dir(args.out)
    found = {
        "scenarios": lambda: _files(available_scenarios()),
        "overlays": lambda: _files(available_overlays()),
        "bundles": lambda: _bundles(results),
    }
    listed = {kind: found[kind]() for kind in KINDS if args.kind in (None, kind)}
    if args.json:
        print_json(listed)
        return EXIT_OK
    for kind, rows in listed.items():
        print(f"{kind}  ({_USE[kind]})" if rows else f"{kind}: none{_none(kind)}")
        width = max((len(str(row["name"])) for row in rows), default=0)
        for row in rows:
            line = f"  {row['name']:<{width}}  {_told(row)}".rstrip()
            print(line if len(line) <= COLUMNS else line[: COLUMNS - 1].rstrip() + "…")
    return EXIT_OK


def _none(kind: str) -> str:
    return "; make one: make run SCENARIO=smoke" if kind == "bundles" else ""


def _files(known: Mapping[str, Path]) -> list[Json]:
    """Name, title and file of each; a title is null where the file cannot be read, and `why` says why."""
    from pqevidence.scenario.marks import read_marked

    rows = []
    for name, file in known.items():
        row: Json
        try:
            row = {"name": name, "title": str(read_marked(file).data.get("title", ""))}
        except LabError as error:
            row = {"name": name, "title": None, "why": error.what}
        rows.append({**row, "file": shown(file)})
    return rows


def _bundles(results: Path) -> list[Json]:
    """Sealed bundles, newest last: what they measured, with which verdicts, and which one is `latest`."""
    from pqevidence.record.raw import read_object

    latest = results / "latest"
    newest = latest.resolve().name if latest.is_dir() else None
    rows = []
    for seal in sorted(results.glob("2*/tagmanifest-sha512.txt")):
        root = seal.parent
        row = {"name": root.name, "path": shown(root), "latest": root.name == newest}
        try:
            run = read_object(root / "data" / "run.json")
            told = {key: run.get(key) for key in ("scenario", "verdict_counts", "exit_verdict")}
        except (LabError, OSError) as error:
            told = {"scenario": None, "why": getattr(error, "what", "data/run.json cannot be read")}
        rows.append({**row, **told})
    return rows


def _told(row: Mapping[str, object]) -> str:
    if "why" in row:
        return f"({row['why']})"
    if "title" in row:
        return str(row["title"])
    counts = ", ".join(
        f"{count} {verdict}" for verdict, count in counts_of(row, "verdict_counts", {}).items()
    )
    parts = [str(row["scenario"]), counts, "latest" if row["latest"] else ""]
    return "  ".join(part for part in parts if part)
