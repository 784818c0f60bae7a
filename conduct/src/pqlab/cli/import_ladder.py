"""`pqlab import-ladder`: the ESP32-C6 board's serial log as the ladder's CSV."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pqevidence.errors import EXIT_OK, EXIT_WARNING
from pqevidence.paths import shown
from pqlab.cli.common import print_json

HELP = "read the ESP32-C6 board's serial log into a CSV"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", help="what the board wrote to its serial port")
    parser.add_argument("--out", metavar="FILE", help="CSV to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """0 all steps read · 3 steps missing or lines refused. Raises LabError for a log without a result."""
    from pqlab.bench.board import read_log

    log = read_log(Path(args.log))
    table = log.table()
    missing = sum(row["reason"] is not None for row in table.rows)
    code = EXIT_WARNING if missing or log.refused else EXIT_OK
    if args.out:
        Path(args.out).write_text(table.csv_text(), encoding="utf-8", newline="")
    if args.json:
        refused = [{"line": one.line, "reason": one.reason} for one in log.refused]
        print_json({"rows": table.rows, "refused": refused, "exit_code": code})
        return code
    if args.out:
        print(f"{len(table.rows) - missing} of {len(table.rows)} steps in {shown(Path(args.out))}")
    else:
        print(table.csv_text(), end="")
    for one in log.refused:
        print(f"line {one.line} left out: {one.reason}", file=sys.stderr)
    return code
