"""`pqlab show`: a scenario as the lab understands it, each value with where it came from."""

from __future__ import annotations

import argparse
import json

from pqevidence.errors import EXIT_OK
from pqevidence.scenario import load_scenario
from pqlab.cli.common import add_overrides, add_scenario, overrides_of, print_json

HELP = "print a scenario; --effective: every value and its origin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_overrides(parser)
    parser.add_argument("--effective", action="store_true", help="with defaults, overrides and their origin")


def run(args: argparse.Namespace) -> int:
    """Raises ScenarioError (exit 2)."""
    scenario = load_scenario(args.scenario, overrides_of(args))
    if args.json:
        print_json({"scenario": scenario.data, "origins": scenario.origins, "sha256": scenario.sha256})
    elif args.effective:
        rows = [(f"{path}: {json.dumps(value)}", origin) for path, value, origin in scenario.leaves()]
        width = min(60, max(len(text) for text, _ in rows))
        for text, origin in rows:
            print(f"{text:<{width}}  # {origin}")
    else:
        print(scenario.file.read_text(encoding="utf-8"), end="")
    return EXIT_OK
