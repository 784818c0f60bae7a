"""`pqlab status`: runs in work, how far they are, and the newest bundle. Reads files only."""

from __future__ import annotations

import argparse
import time

from pqbase.documents import Json, counts_of, number_of, part_of, rows_of
from pqevidence.errors import EXIT_OK, LabError
from pqevidence.paths import out_option, results_dir, shown
from pqlab.campaign.store import WHOLE, Store, work_runs
from pqlab.cli.common import add_out, print_json
from pqlab.pairs.folder import FOLDER, PairsFolder, campaigns
from pqlab.pairs.status import campaign_status, pair_status, sentence
from pqlab.progress import clock_text

HELP = "show runs in work and the newest bundle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="one run (default: all in work)")
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    """Raises LabError (exit 4) when the named run is not there."""
    results = results_dir(args.out)
    runs = work_runs(results)
    if args.run_id is not None and args.run_id not in runs:
        raise LabError(
            "no-run",
            f"there is no run {args.run_id} in work under {shown(results)}",
            "in work: " + (", ".join(runs) or "none"),
            f"./pqlab status{out_option(results)}",
        )
    shown_runs = [
        Store(results, run_id).status_or_begun(time.time_ns())
        for run_id in runs
        if args.run_id in (None, run_id)
    ]
    latest = results / "latest"
    newest = shown(latest.resolve()) if latest.is_dir() else None
    several = [_of_pairs(folder) for folder in campaigns(results) if args.run_id is None and not folder.whole]
    if args.json:
        print_json({"runs": shown_runs, "campaigns": several, "latest": newest})
        return EXIT_OK
    for campaign in several:
        rows = rows_of(campaign, "pairs")
        folder = shown(results / FOLDER / str(campaign["folder"]))
        print(f"{campaign['scenario']} on {len(rows)} pairs, in {folder}: {campaign['state']}")
        for row in rows:
            print(f"  {sentence(row)}")
        if campaign["state"] != "running":
            print("  next: the same ./pqlab run or playbook goes on with the pairs that are not sealed")
    for status in shown_runs:
        print(_line(status))
        if status["state"] != "running":
            option = out_option(results)
            print(f"  next: ./pqlab resume {status['run_id']}{option}")
            if status["state"] != WHOLE:
                print(f"  or, to throw it away: ./pqlab discard {status['run_id']}{option}")
    if not shown_runs and not several:
        print("no run in work")
    print(f"newest bundle: {newest or 'none yet'}")
    return EXIT_OK


def _of_pairs(folder: PairsFolder) -> Json:
    """A campaign on several pairs: `state` is running while a process carries it out, else stopped."""
    rows = [pair_status(folder, pair, time.time_ns()) for pair in folder.pairs]
    return campaign_status(folder, rows, {"state": "running" if folder.held() else "stopped"})


def is_whole(store: Store) -> bool:
    """Has the run all its cells, and nothing in its folder that does not belong into the bundle?"""
    return bool(store.status_or_begun(time.time_ns())["state"] == WHOLE)


def _line(status: Json) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in counts_of(status, "verdict_counts").items())
    done = f"{status['done']} of {status['total']} cells"
    parts = [f"{status['run_id']} {status['scenario']}: {status['state']}, {done}"]
    if counts:
        parts.append(counts)
    if status["state"] == "running" and (cell := part_of(status, "current", {})):
        parts.append(f"now {cell['suite_id']} rep {cell['repetition']}")
        if status["eta_s"] is not None:
            parts.append(f"eta {clock_text(number_of(status, 'eta_s'))}")
    if status["error"]:
        parts.append(str(part_of(status, "error")["what"]))
    return "; ".join(parts)
