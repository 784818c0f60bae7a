"""Hold recordings of the lab against simulated twins of them: KS distance and quantiles of every feature."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from pqdetect import recording
from pqdetect.compare import TWINS, compare, markdown
from pqdetect.errors import UsageError

HELP = "compare the simulator with recordings of the lab"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("recordings", nargs="+", type=Path, help="folders with bins.ndjson and truth.json")
    parser.add_argument("--twins", type=int, default=TWINS, help=f"flights for each (default {TWINS})")
    parser.add_argument("--json", action="store_true", help="JSON in place of a Markdown table")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    if args.twins < 1:
        raise UsageError(f"--twins {args.twins} is less than 1")
    found = compare([recording.read(folder) for folder in args.recordings], args.twins)
    print(json.dumps([asdict(one) for one in found]) if args.json else markdown(found))
    return 0
