"""Train all detectors on simulated recordings; writes models, cards and the figures of training."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "train all detectors (about half an hour on one core)"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tiny", action="store_true", help="seconds of data: checks that everything runs")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="MODEL", help="only the seeds of these, into --work"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("/work"), help="scratch folder: recordings, every seed"
    )
    parser.add_argument("--models", type=Path, help="where the chosen models go (default /models)")
    parser.add_argument("--record", type=Path, help="where training.json goes (default /evaluation)")


def run(args: argparse.Namespace) -> int:
    """Train."""
    from pqdetect.training.run import Plan, Training

    plan = Plan.tiny() if args.tiny else Plan.full()
    # A check that everything runs must not take the place of models that are of use.
    root = args.work / "tiny" if args.tiny else Path("/")
    models, record = args.models or root / "models", args.record or root / "evaluation"
    Training(plan, args.work / "tiny" if args.tiny else args.work, models, record).run(args.only)
    return 0
