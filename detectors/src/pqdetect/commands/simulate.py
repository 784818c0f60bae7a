"""Simulate scenarios of a split and write them as recordings, or run one to see how fast that is."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from pqbase.tasks import carry_out
from pqbase.workers import Where, add_options, runner_of
from pqdetect import recording
from pqdetect.errors import RecordingError, UsageError
from pqdetect.simulate import Spec, scenarios, simulate, table
from pqdetect.training.tasks import MADE_OF, files_of, flight, say

HELP = "simulate flights with truth"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--split", choices=sorted(table()["splits"]), default="validation")
    parser.add_argument("--count", type=int, default=1, help="how many scenarios (default 1)")
    parser.add_argument("--seed", type=int, help="another draw of the same population")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--attacks", action="store_true", help="attack scenarios alone")
    only.add_argument("--benign", action="store_true", help="attack-free scenarios alone")
    parser.add_argument(
        "--out", type=Path, help="folder for one folder a scenario (default: nothing is kept)"
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """One line of JSON a scenario."""
    if args.count < 1:
        raise UsageError(f"--count {args.count} is less than 1")
    sort = True if args.attacks else False if args.benign else None
    specs = list(islice(scenarios(args.split, seed=args.seed, attacks=sort), args.count))
    where = Where.asked(args.workers, args.scheduler)
    if where is None:
        for spec in specs:
            start = time.process_time()
            made = simulate(spec)
            spent_s = time.process_time() - start
            counts = {"windows": len(made), "episodes": len(made.truth.episodes)}
            pace = {
                "cpu_s": round(spent_s, 4),
                "times_real_time": round(spec.duration_s / max(spent_s, 1e-9)),
            }
            if args.out is not None:
                _write(recording.texts(made), args.out, spec)
            _tell(spec, counts, pace)
        return 0
    with runner_of(where, say) as runner:
        for spec, made_there in zip(
            specs, carry_out([flight(spec) for spec in specs], MADE_OF, runner, say), strict=True
        ):
            counts, content = files_of(made_there)
            if args.out is not None:
                _write(content, args.out, spec)
            # Beside other work nobody says how fast it was.
            _tell(spec, counts, {"cpu_s": None, "times_real_time": None})
    return 0


def _tell(spec: Spec, counts: Mapping[str, int], pace: Mapping[str, float | None]) -> None:
    about = {
        "scenario_id": spec.scenario_id,
        "kind": spec.kind,
        "theme": spec.theme,
        "profile": spec.profile,
    }
    print(json.dumps({**about, **counts, **pace}), flush=True)


def _write(content: Mapping[str, str], out: Path, spec: Spec) -> None:
    try:
        recording.write_texts(content, out / spec.scenario_id)
    except OSError as error:
        raise RecordingError(
            f"{out}: {error.strerror or error}", hint="name a folder this user may write"
        ) from error
