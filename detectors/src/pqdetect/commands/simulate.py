"""Simulate scenarios of a split and write them as recordings, or run one to see how fast that is."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from pqdetect import recording
from pqdetect.errors import RecordingError, UsageError
from pqdetect.simulate import scenarios, simulate, table

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


def run(args: argparse.Namespace) -> int:
    """One line of JSON a scenario."""
    if args.count < 1:
        raise UsageError(f"--count {args.count} is less than 1")
    sort = True if args.attacks else False if args.benign else None
    specs = scenarios(args.split, seed=args.seed, attacks=sort)
    for _, spec in zip(range(args.count), specs, strict=False):
        start = time.process_time()
        made = simulate(spec)
        spent_s = time.process_time() - start
        told = {
            "scenario_id": spec.scenario_id,
            "kind": spec.kind,
            "theme": spec.theme,
            "profile": spec.profile,
            "windows": len(made),
            "episodes": len(made.truth.episodes),
            "cpu_s": round(spent_s, 4),
            "times_real_time": round(spec.duration_s / max(spent_s, 1e-9)),
        }
        if args.out is not None:
            try:
                recording.write(made, args.out / spec.scenario_id)
            except OSError as error:
                raise RecordingError(
                    f"{args.out}: {error.strerror or error}", hint="name a folder this user may write"
                ) from error
        print(json.dumps(told), flush=True)
    return 0
