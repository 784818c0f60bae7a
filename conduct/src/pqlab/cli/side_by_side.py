"""`pqlab run` on an inventory of several pairs: all of them at once, then one merged bundle.

The same command goes on where an earlier one ended: pairs with a sealed share are left as they are, the
others are resumed or begun, and nothing is moved to another pair.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pqbase.documents import Json, counts_of
from pqbase.ending import on_signals
from pqbase.text import utc_basic, utc_text
from pqevidence.bundle.sealing import point_latest
from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INTERRUPTED, LabError
from pqevidence.paths import results_dir, shown
from pqevidence.plan import campaign_of
from pqevidence.scenario import Scenario
from pqevidence.share import Share
from pqlab.campaign.ring import SIM, at_ring
from pqlab.cli import place
from pqlab.cli.common import print_json
from pqlab.cli.merge import Merged, merge
from pqlab.cli.plan import one_machine, share_of
from pqlab.inventory import Inventory
from pqlab.pairs.children import Children
from pqlab.pairs.folder import PairsFolder, open_campaign
from pqlab.pairs.screen import Screen, screen
from pqlab.pairs.status import campaign_status, pair_status, write_status
from pqlab.pairs.words import command, environment, require_for_pairs, resume_words, run_words

_LEAST_PARTS = 2


def side_by_side(args: argparse.Namespace, scenario: Scenario, pairs: tuple[Inventory, ...]) -> int:
    """4 where a pair has no sealed share in the end, 130 by Ctrl-C, else the worst of the pairs' own codes
    and the merge's. Raises LabError before anything begins."""
    require_for_pairs(args)
    place.require_for_pairs(args, pairs)
    for pair in pairs:
        share_of(args, scenario, pair)
    names = [_share(pair).pair for pair in pairs]
    results = results_dir(args.out)
    staged = at_ring(scenario, pairs[0])
    folder, told = _folder(results, staged, names)
    folder.lock()
    todo = {name: folder.todo(name) for name in names}
    show = screen(names, json_output=args.json)
    children = Children()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    on_signals(children.end)
    try:
        for line in filter(None, (told, one_machine(pairs))):
            show.tell(None, line)
        with children:
            for pair in pairs:
                _start(args, pair, folder, children, show)
            _follow(folder, children, show)
    finally:
        show.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    codes = {child.pair: child.code or 0 for child in children.all}
    dead = {child.pair: why for child in children.all if (why := child.why_dead()) is not None}
    stream = sys.stderr if args.json else sys.stdout
    for name, why in dead.items():
        print(f"{name} ended without its share: {why}", file=stream)
    if children.ending:
        print(f"stopped; the same command goes on ({shown(folder.root)})", file=sys.stderr)
        return EXIT_INTERRUPTED
    parts = {name: bundle for name in names if (bundle := folder.bundle_of(name)) is not None}
    merged = _merge(folder, parts, results, stream)
    error = None if not dead else _error(dead, folder, names)
    document = _document(folder, pairs, parts, dead, merged, {**dict.fromkeys(todo, 0), **codes})
    code = EXIT_ENVIRONMENT if dead else _worst([*codes.values(), *([merged.code] if merged else [])])
    _last_status(folder, error)
    if error is not None:
        print(error.text(), file=sys.stderr)
        document["error"] = error.as_dict()
    if args.json:
        print_json(document)
    elif merged is not None:
        print(shown(merged.bundle / "data" / "report.html"))
    return code


def _share(pair: Inventory) -> Share:
    assert pair.share is not None
    return pair.share


def _folder(results: Path, scenario: Scenario, names: list[str]) -> tuple[PairsFolder, str]:
    """The campaign that is open, or a new one; and what to say of it."""
    campaign = campaign_of(scenario)
    found = open_campaign(results, campaign, names)
    if found is not None:
        return found, f"going on with the campaign in {shown(found.root)}"
    now_ns = time.time_ns()
    document: Json = {
        "campaign": campaign,
        "scenario": scenario.name,
        "pairs": names,
        "begun_utc": utc_text(now_ns),
        "merged": None,
    }
    fresh = PairsFolder.begin(results, f"{utc_basic(now_ns)}-{campaign[:12]}", document)
    return (
        fresh,
        f"campaign {campaign[:12]}… of {scenario.name} on {len(names)} pairs, in {shown(fresh.root)}",
    )


def _start(
    args: argparse.Namespace, pair: Inventory, folder: PairsFolder, children: Children, show: Screen
) -> None:
    share = _share(pair)
    results = folder.results_of(share.pair)
    if pair.ring == SIM:
        folder.forget_unfinished(share.pair)
    match folder.todo(share.pair):
        case "nothing":
            show.tell(share.pair, f"share {share.number}/{share.of} is sealed already, and is left as it is")
            return
        case "resume":
            show.tell(share.pair, f"share {share.number}/{share.of} is in work: resuming it")
            words = resume_words(args, pair, results)
        case "run":
            show.tell(share.pair, f"share {share.number}/{share.of} begins")
            words = run_words(args, pair, results)
    results.mkdir(parents=True, exist_ok=True)
    children.start(share.pair, command(words), environment(pair))


def _rows(folder: PairsFolder) -> list[Json]:
    return [pair_status(folder, name, time.time_ns()) for name in folder.pairs]


def _follow(folder: PairsFolder, children: Children, show: Screen) -> None:
    def look() -> None:
        rows = _rows(folder)
        show.board(rows)
        more = {
            "state": "running",
            "pid": os.getpid(),
            "updated_utc": utc_text(time.time_ns()),
            "error": None,
        }
        write_status(folder, campaign_status(folder, rows, more))

    look()
    children.follow(show.tell, look)


def _last_status(folder: PairsFolder, error: LabError | None) -> None:
    told = None if error is None else error.as_dict()
    more = {"state": "ended", "pid": os.getpid(), "updated_utc": utc_text(time.time_ns()), "error": told}
    write_status(folder, campaign_status(folder, _rows(folder), more))


def _merge(folder: PairsFolder, parts: dict[str, Path], results: Path, stream: TextIO) -> Merged | None:
    """The merge of what is there, None for fewer than two shares. The campaign is whole once no block is
    missing in it. Raises LabError for shares that do not belong together."""
    absent = [name for name in folder.pairs if name not in parts]
    if len(parts) < _LEAST_PARTS:
        print(f"no merge yet: {', '.join(absent)} left no share, and a merge is of two at least", file=stream)
        return None
    merged = merge(list(parts.values()), results, again=True)
    point_latest(results, merged.bundle.name)
    if not merged.data.missing:
        folder.document["merged"] = merged.bundle.name
        folder.write()
    for line in (*merged.told(), f"check it: ./pqlab verify {shown(merged.bundle)}"):
        print(line, file=stream)
    return merged


def _error(dead: dict[str, str], folder: PairsFolder, names: list[str]) -> LabError:
    told = "; ".join(f"{name}: {why}" for name, why in dead.items())
    kept = "their blocks stay" if len(dead) > 1 else "its blocks stay"
    return LabError(
        "pair-died",
        f"{len(dead)} of {len(names)} pairs ended without a sealed share: {', '.join(dead)}",
        f"{told}; {kept} missing, and are moved to no other pair",
        f"the same command goes on with {', '.join(dead)} alone; finished cells are in {shown(folder.root)}",
    )


def _document(
    folder: PairsFolder,
    pairs: Sequence[Inventory],
    parts: dict[str, Path],
    dead: dict[str, str],
    merged: Merged | None,
    codes: dict[str, int],
) -> Json:
    """Of `--json`: what a run of one pair ends with, and each pair's own."""
    rows = {str(row["pair"]): row for row in _rows(folder)}
    counts: dict[str, int] = {}
    for row in rows.values():
        for verdict, count in counts_of(row, "verdict_counts").items():
            counts[verdict] = counts.get(verdict, 0) + count
    each = [
        {
            "pair": (name := _share(pair).pair),
            "share": f"{_share(pair).number}/{_share(pair).of}",
            "lab": None if pair.lab is None else pair.lab.number,
            "bundle": shown(parts[name]) if name in parts else None,
            "verdict_counts": rows[name]["verdict_counts"],
            "exit_code": codes[name],
            "died": dead.get(name),
        }
        for pair in pairs
    ]
    return {
        "bundle": None if merged is None else shown(merged.bundle),
        "verdict_counts": dict(sorted(counts.items())),
        "warnings": [] if merged is None else merged.warnings,
        "report": None if merged is None else shown(merged.bundle / "data" / "report.html"),
        "missing_repetitions": None if merged is None else merged.data.missing,
        "folder": shown(folder.root),
        "pairs": each,
    }


def _worst(codes: Sequence[int]) -> int:
    """1 is worse than 3 (docs/EXIT-CODES.md)."""
    return EXIT_FAILED if EXIT_FAILED in codes else max(codes, default=0)
