"""`pqlab discard`: a stopped run that nobody wants to finish, its cells with it. Sealed bundles stay."""

from __future__ import annotations

import argparse
import shutil

from pqevidence.errors import EXIT_OK, LabError, UsageError
from pqevidence.paths import out_option, results_dir, shown
from pqlab.campaign.store import Store, disk_errors, work_runs
from pqlab.cli.common import add_out, print_json
from pqlab.cli.status import is_whole

HELP = "throw a stopped run away, with the cells that it has; sealed bundles stay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="+", metavar="RUN_ID", help="as `pqlab status` shows it")
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    """Raises LabError (exit 4) for a run that is not in work or is being carried out, UsageError for a sealed
    one; then nothing is thrown away."""
    results = results_dir(args.out)
    known = work_runs(results)
    stores = [Store(results, run_id) for run_id in dict.fromkeys(args.run_id)]
    for store in stores:
        if store.run_id not in known:
            _refuse(store, known, out_option(results))
        if is_whole(store):
            raise LabError(
                "run-whole",
                f"run {store.run_id} has all its cells and is being sealed, or was killed then",
                "what is left to do takes seconds, and another process may be at it",
                f"./pqlab resume {store.run_id}{out_option(results)}",
            )
        store.lock()
    thrown = []
    for store in stores:
        cells = sum(1 for _ in (store.data / "cells").glob("*/record.json"))
        with disk_errors(store.root):
            shutil.rmtree(store.root)
        store.unlock()
        thrown.append({"run_id": store.run_id, "cells": cells})
        if not args.json:
            print(f"{store.run_id} is gone, with {cells} finished cells")
    if args.json:
        print_json({"discarded": thrown})
    return EXIT_OK


def _refuse(store: Store, known: list[str], option: str) -> None:
    if (store.results / store.run_id / "bagit.txt").is_file():
        raise UsageError(
            "sealed",
            f"run {store.run_id} is finished and sealed",
            "`discard` throws stopped runs away and no results",
            f"remove its folder yourself if you mean it: {shown(store.results / store.run_id)}",
        )
    raise LabError(
        "no-run",
        f"there is no run {store.run_id} in work under {shown(store.results)}",
        "in work: " + (", ".join(known) or "none"),
        f"./pqlab status{option}",
    )
