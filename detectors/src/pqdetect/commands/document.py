"""Write the tables of an evaluation into docs/DETECTORS.md, between its marks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pqdetect.evaluation import live_tables, tables

HELP = "write the evaluation's tables into a document"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    results, document = Path("detectors/evaluation/results.json"), Path("docs/DETECTORS.md")
    parser.add_argument(
        "results", type=Path, nargs="?", default=results, help="results.json of an evaluation"
    )
    parser.add_argument(
        "document", type=Path, nargs="?", default=document, help="the Markdown file with the marks"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 3 when the tables differ")


def run(args: argparse.Namespace) -> int:
    """Write, or compare."""
    before = args.document.read_text(encoding="utf-8")
    results = json.loads(args.results.read_text(encoding="utf-8"))
    after = tables.insert(before, tables.blocks(results) | live_tables.blocks(results))
    if args.check:
        print("the tables agree" if before == after else f"{args.document} differs from {args.results}")
        return 0 if before == after else 3
    args.document.write_text(after, encoding="utf-8")
    return 0
