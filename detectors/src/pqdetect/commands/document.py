"""Write the tables of an evaluation into docs/DETECTORS.md and docs/DETECTORS-LIVE.md, between the marks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pqdetect.evaluation import live_tables, tables
from pqdetect.evaluation.results import Results

HELP = "write the evaluation's tables into its pages"
#: page → the tables that it holds
PAGES: Final[dict[str, Callable[[Results], dict[str, str]]]] = {
    "DETECTORS.md": tables.blocks,
    "DETECTORS-LIVE.md": live_tables.blocks,
}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    results, folder = Path("detectors/evaluation/results.json"), Path("docs")
    parser.add_argument(
        "results", type=Path, nargs="?", default=results, help="results.json of an evaluation"
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", default=folder, help=f"where {' and '.join(PAGES)} lie"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 3 when the tables differ")


def run(args: argparse.Namespace) -> int:
    """Write, or compare."""
    results = json.loads(args.results.read_text(encoding="utf-8"))
    before = {args.folder / name: (args.folder / name).read_text(encoding="utf-8") for name in PAGES}
    after = {path: tables.insert(text, PAGES[path.name](results)) for path, text in before.items()}
    if args.check:
        differ = [path for path in before if before[path] != after[path]]
        for path in differ:
            print(f"{path} differs from {args.results}")
        if not differ:
            print("the tables agree")
        return 3 if differ else 0
    for path, text in after.items():
        path.write_text(text, encoding="utf-8")
    return 0
