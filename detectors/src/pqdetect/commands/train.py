"""Train all detectors on simulated recordings; writes models, cards and the figures of training."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

HELP = "train all detectors (10 to 30 minutes on one core)"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--tiny", action="store_true", help="a fiftieth of it, all in --work: checks that everything runs"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="MODEL", help="only the seeds of these, into --work"
    )
    parser.add_argument(
        "--work", type=Path, default=Path(".state/detectors"), help="scratch folder: recordings, every seed"
    )
    parser.add_argument("--models", type=Path, help="where the chosen models go (default detectors/models)")
    parser.add_argument("--record", type=Path, help="where training.json goes (default detectors/evaluation)")


def run(args: argparse.Namespace) -> int:
    """Train."""
    from pqdetect.training.plan import Plan
    from pqdetect.training.run import Training

    plan = Plan.tiny() if args.tiny else Plan.full()
    work, root = args.work, Path("detectors")
    if args.tiny:
        # A check that everything runs must not take the place of models that are of use, nor anything from an
        # earlier check.
        work = root = args.work / "tiny"
        shutil.rmtree(work, ignore_errors=True)
    models, record = args.models or root / "models", args.record or root / "evaluation"
    Training(plan, work, models, record).run(args.only)
    return 0
