"""Evaluate the models on recordings that they were not made from; writes JSON, CSV and SVG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pqbase.workers import Where, add_options, runner_of
from pqdetect.evaluation.results import Shuffled

HELP = "evaluate the models: test split, and recordings of the running lab"
#: a mean AUROC further than this from 0.5 is no chance
CHANCE_WITHIN: Final = 0.1


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--tiny", action="store_true", help="what train --tiny made, on a fiftieth of the test recordings"
    )
    parser.add_argument(
        "--work", type=Path, default=Path(".state/detectors"), help="scratch folder of a training run"
    )
    parser.add_argument("--models", type=Path, help="models to evaluate (default detectors/models)")
    parser.add_argument("--out", type=Path, help="where the results go (default detectors/evaluation)")
    parser.add_argument(
        "--live", type=Path, nargs="+", default=[], metavar="FOLDER", help="recordings of the lab"
    )
    parser.add_argument(
        "--bundle", type=Path, nargs="+", default=[], help="campaigns with detectors: cost, verdicts"
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="put --live and --bundle in the place of the lab's part of the results there; judge no test "
        "recording again; alone: write CSV and SVG again",
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate; 3 when shuffled labels left something to learn."""
    from pqdetect.evaluation.run import Evaluation, write_default
    from pqdetect.training.tasks import say

    # As in training: what --tiny makes and judges lies in the scratch folder.
    root = args.work / "tiny" if args.tiny else Path("detectors")
    models, out = args.models or root / "models", args.out or root / "evaluation"
    work = root if args.tiny else args.work
    # Of models from elsewhere the training lies beside their results, if anywhere.
    record = out if args.models else root / "evaluation"
    where = Where.asked(args.workers, args.scheduler)
    with runner_of(where, say) as runner:
        evaluation = Evaluation(models, work, out, 0.02 if args.tiny else 1.0, record, runner)
        if args.add:
            evaluation.add(args.live, args.bundle)
            return 0
        results = evaluation.run(args.live, args.bundle)
    write_default(results, models)
    won = results["winner"]
    print(f"at equal false alarms {won['best']} finds most; default: {won['default']}")
    if args.tiny:
        print("a check that everything runs: these figures say nothing of the models that are committed")
    text, passed = verdict(results["shuffled_labels"])
    print(f"shuffled labels: {text}")
    # A check that everything runs has to have measured it.
    return 3 if passed is False or (args.tiny and passed is None) else 0


def verdict(shuffled: Shuffled) -> tuple[str, bool | None]:
    """What shuffled labels left to learn, in words, and whether that is chance; None: not measured."""
    values = [value for value in shuffled.get("auroc") or [] if value is not None]
    if not values:
        return f"not measured ({shuffled.get('reason', 'no window of an attack')})", None
    mean = sum(values) / len(values)
    chance = abs(mean - 0.5) <= CHANCE_WITHIN
    told = "chance" if chance else "NOT chance: labels leak"
    return f"mean AUROC {mean:.3f} of {len(values)}, {told}", chance
