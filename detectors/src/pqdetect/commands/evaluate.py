"""Evaluate the models on recordings that they were not made from; writes JSON, CSV and SVG."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "evaluate the models: test split, and recordings of the running lab"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tiny", action="store_true", help="a hundredth of the test recordings")
    parser.add_argument("--work", type=Path, default=Path("/work"), help="scratch folder of a training run")
    parser.add_argument("--models", type=Path, help="models to evaluate (default /models)")
    parser.add_argument("--out", type=Path, help="where the results go (default /evaluation)")
    parser.add_argument(
        "--live", type=Path, nargs="+", default=[], metavar="FOLDER", help="recordings of the lab"
    )
    parser.add_argument(
        "--bundle", type=Path, nargs="+", default=[], help="campaigns with detectors: cost, verdicts"
    )
    parser.add_argument(
        "--add", action="store_true", help="add to the results there; judge no test recording again"
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate; 3 when shuffled labels left something to learn."""
    from pqdetect.evaluation.run import Evaluation, write_default

    # As in training: what --tiny makes and judges lies in the scratch folder.
    root = args.work / "tiny" if args.tiny else Path("/")
    models, out = args.models or root / "models", args.out or root / "evaluation"
    work = root if args.tiny else args.work
    evaluation = Evaluation(models, work, out, 0.02 if args.tiny else 1.0)
    if args.add:
        evaluation.add(args.live, args.bundle)
        return 0
    results = evaluation.run(args.live, args.bundle)
    write_default(results, models)
    values = [value for value in results["shuffled_labels"].get("auroc") or [] if value is not None]
    if not values:
        reason = results["shuffled_labels"].get("reason", "no window of an attack")
        print(f"shuffled labels: not measured ({reason})")
        return 0
    mean = sum(values) / len(values)
    chance = abs(mean - 0.5) <= 0.1
    print(f"shuffled labels: mean AUROC {mean:.3f}, {'chance' if chance else 'NOT chance: labels leak'}")
    return 0 if chance or args.tiny else 3
