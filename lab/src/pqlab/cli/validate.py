"""`pqlab validate`: is a scenario something the lab can do? Touches nothing."""

from __future__ import annotations

import argparse

from pqlab.cli.common import add_overrides, add_scenario, overrides_of, print_json
from pqlab.errors import EXIT_OK
from pqlab.paths import shown
from pqlab.scenario import available_scenarios, load_scenario

HELP = "check scenario files without side effects"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser, optional=True)
    add_overrides(parser)


def run(args: argparse.Namespace) -> int:
    """One scenario, or all shipped ones when none is named. Raises ScenarioError (exit 2)."""
    names = [args.scenario] if args.scenario else list(available_scenarios())
    rows = []
    for name in names:
        scenario = load_scenario(name, overrides_of(args) if args.scenario else None)
        cells = len(scenario.suites) * len(scenario.conditions) * scenario.repetitions
        rows.append(
            {
                "file": shown(scenario.file),
                "name": scenario.name,
                "suites": len(scenario.suites),
                "cells": cells,
            }
        )
        if not args.json:
            print(f"{shown(scenario.file)}: valid, {len(scenario.suites)} suites, {cells} cells")
    if args.json:
        print_json({"valid": True, "scenarios": rows})
    return EXIT_OK
