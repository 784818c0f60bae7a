"""`pqlab plan`: the matrix of cells, time and disk, before anything runs."""

from __future__ import annotations

import argparse
from typing import Any

from pqlab.budget import estimate, handshake_costs_ms
from pqlab.campaign.agents import Pair, tls_connector
from pqlab.campaign.engine import greet
from pqlab.cli.common import add_inventory, add_out, add_overrides, add_scenario, overrides_of, print_json
from pqlab.errors import EXIT_OK, LabError
from pqlab.inventory import Inventory, load_inventory
from pqlab.paths import results_dir
from pqlab.plan import make_cells, plan_document
from pqlab.progress import clock_text
from pqlab.scenario import load_scenario

HELP = "print the cells of a scenario, their order, expected time and disk"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_overrides(parser)
    add_inventory(parser)
    add_out(parser, "results folder whose newest bundle gives the expected times (default: results)")


def run(args: argparse.Namespace) -> int:
    """Raises ScenarioError (exit 2). A lab that is down costs the cell ids, not the plan."""
    scenario = load_scenario(args.scenario, overrides_of(args))
    providers, unknown = _providers(load_inventory(args.inventory, args.keys))
    latest = results_dir(args.out) / "latest"
    source = latest.resolve() if latest.is_dir() else None
    cells = make_cells(scenario, providers)
    budget = estimate(scenario, cells, handshake_costs_ms(source), source.name if source else None)
    document = plan_document(scenario, cells, budget, run_id=None, created_utc=None)
    if args.json:
        print_json({**document, "cell_ids_unknown": unknown})
        return EXIT_OK
    width = len(str(len(cells)))
    for cell in cells:
        name = cell.cell_id or "-" * 16
        print(f"[{cell.position + 1:>{width}}] {name} {cell.suite_id} {cell.condition} rep {cell.repetition}")
    print(
        f"\n{len(cells)} cells: {len(scenario.suites)} suites × {len(scenario.conditions)} conditions "
        f"× {scenario.repetitions} repetitions, order {scenario.order_method}, seed {scenario.seed}"
    )
    print(f"time: {_time_text(budget)}")
    print(f"disk: about {budget['disk_bytes'] / 1e6:.0f} MB")
    print("expected confidence-interval width: unknown (no variance model in this version)")
    if unknown:
        print(f"cell ids: unknown, they hold the builds of both ends ({unknown})")
    return EXIT_OK


def _time_text(budget: dict[str, Any]) -> str:
    if budget["eta_s"] is not None:
        return f"about {clock_text(budget['eta_s'])} (handshakes as measured in {budget['eta_source']})"
    least, most = clock_text(budget["least_s"]), clock_text(budget["most_s"])
    return f"unknown, between {least} and {most} ({budget['eta_reason']})"


def _providers(inventory: Inventory) -> tuple[dict[str, Any] | None, str | None]:
    try:
        pair = Pair(inventory, tls_connector(inventory))
        try:
            hello = greet(pair)
        finally:
            pair.close()
    except LabError as error:
        return None, error.what
    return {role: facts["providers"] for role, facts in hello.items()}, None
