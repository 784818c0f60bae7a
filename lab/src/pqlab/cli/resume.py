"""`pqlab resume`: the rest of an interrupted run, only what is missing or failed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqlab.campaign.engine import Campaign
from pqlab.campaign.store import Store, work_runs
from pqlab.cli.run import add_run_options, controller, report_result, surroundings
from pqlab.errors import UsageError
from pqlab.inventory import load_inventory
from pqlab.paths import results_dir, shown
from pqlab.scenario.load import load_effective

HELP = "finish an interrupted run (default: the newest)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="as `pqlab status` shows it")
    add_run_options(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code as of `run`; raises LabError when there is nothing to resume or the builds changed."""
    results = results_dir(args.out)
    store = Store(results, _choose(results, args.run_id))
    scenario = load_effective(store.data / "scenario.effective.yml")
    inventory = load_inventory(args.inventory, args.keys)
    with controller(inventory):
        return report_result(
            args, Campaign.resume(surroundings(args, inventory), store, scenario).carry_out()
        )


def _choose(results: Path, run_id: str | None) -> str:
    runs = work_runs(results)
    if run_id is None:
        if not runs:
            raise UsageError(
                "nothing-to-resume",
                f"no run is in work under {shown(results)}",
                "every run there was sealed, or none was begun",
                "./pqlab run SCENARIO",
            )
        return runs[-1]
    if run_id in runs:
        return run_id
    if (results / run_id / "bagit.txt").is_file():
        raise UsageError(
            "sealed",
            f"run {run_id} is finished and sealed",
            "sealed cells never change",
            f"./pqlab report {shown(results / run_id)}, or begin anew: ./pqlab run SCENARIO",
        )
    raise UsageError(
        "no-run",
        f"there is no run {run_id} in work under {shown(results)}",
        "in work: " + (", ".join(runs) or "none"),
        "./pqlab status",
    )
