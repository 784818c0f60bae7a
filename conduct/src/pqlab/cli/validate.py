"""`pqlab validate`: is a scenario something the lab can do? Touches nothing."""

from __future__ import annotations

import argparse

from pqevidence.errors import EXIT_OK, UsageError
from pqevidence.paths import shown
from pqevidence.scenario import Overrides, available_overlays, available_scenarios, load_scenario
from pqevidence.scenario.compose import read_overlay
from pqlab.cli.common import add_overrides, add_scenario, overrides_of, print_json

HELP = "check scenario files without side effects"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser, optional=True)
    add_overrides(parser)


def run(args: argparse.Namespace) -> int:
    """One scenario, or all shipped ones when none is named. Raises ScenarioError (exit 2)."""
    asked = overrides_of(args)
    if not args.scenario and asked != Overrides():
        raise UsageError(
            "no-scenario",
            "an option changes a scenario, and none is named",
            "without a name all shipped files are checked as they are",
            "name one: ./pqlab validate smoke --reps 4",
        )
    names = [args.scenario] if args.scenario else list(available_scenarios())
    rows = []
    for name in names:
        scenario = load_scenario(name, asked)
        cells = scenario.cell_count
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
    overlays = [] if args.scenario else list(available_overlays().items())
    for name, file in overlays:
        read_overlay(str(file), None)
        if not args.json:
            print(f"{shown(file)}: valid, overlay {name}")
    if args.json:
        print_json({"valid": True, "scenarios": rows, "overlays": [name for name, _ in overlays]})
    return EXIT_OK
