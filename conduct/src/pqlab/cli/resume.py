"""`pqlab resume`: the rest of an interrupted run, only what is missing; failed cells when asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence import commitment
from pqevidence.bundle.sealing import point_latest
from pqevidence.errors import LabError, UsageError
from pqevidence.paths import results_dir, shown
from pqevidence.record.raw import PLACE
from pqevidence.scenario.load import load_effective
from pqlab.campaign.engine import Campaign
from pqlab.campaign.finish import forget_marks, sealed_unnamed
from pqlab.campaign.fleet import require_image
from pqlab.campaign.store import Store, work_runs
from pqlab.cli.common import add_pair, listed
from pqlab.cli.place import inventory_at, inventory_before, place_of, wanted_again
from pqlab.cli.run import (
    add_run_options,
    controller,
    report_result,
    report_sealed,
    require_junit_place,
    surroundings,
)
from pqlab.progress import reporter

HELP = "finish an interrupted run: the cells that are missing (default: the newest run)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="as `pqlab status` shows it")
    add_run_options(parser)
    add_pair(parser)
    parser.add_argument(
        "--rerun-failed", action="store_true", help="also repeat failed and invalid cells; attempts are kept"
    )
    parser.add_argument(
        "--seal", metavar="FILE", help="write the digest of the plan and the public keys of both agents"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="ID",
        help="only cells whose id begins so; the rest stays to be done",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code as of `run`; raises LabError when there is nothing to resume or the builds changed."""
    require_junit_place(args.junit)
    seal = commitment.place(args.seal)
    results = results_dir(args.out)
    newest_in_work = args.run_id is None and bool(work_runs(results))
    if not newest_in_work and (sealed := sealed_unnamed(results, args.run_id)) is not None:
        # killed between its two last renames: the bundle is whole, only `latest` does not name it yet
        point_latest(results, sealed.name)
        forget_marks(results)
        return report_sealed(args, sealed)
    store = Store(results, _choose(results, args.run_id))
    scenario = load_effective(store.data / "scenario.effective.yml")
    only, again = listed(args.only), args.rerun_failed
    wanted = wanted_again(args, store.read("hosts/drone.json").get(PLACE), inventory_before(args))
    with place_of(wanted, reporter(json_output=args.json).note) as place:
        inventory = inventory_at(args, place.name)
        begun = surroundings(args, inventory, place=place, only=only, rerun_failed=again, seal=seal)
        with controller(inventory), begun as around:
            require_image(scenario, inventory.compose_project, around.reporter.note)
            return report_result(args, Campaign.resume(around, store, scenario).carry_out())


def _choose(results: Path, run_id: str | None) -> str:
    runs = work_runs(results)
    if run_id is None:
        if not runs:
            raise LabError(
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
    raise LabError(
        "no-run",
        f"there is no run {run_id} in work under {shown(results)}",
        "in work: " + (", ".join(runs) or "none"),
        "./pqlab status",
    )
