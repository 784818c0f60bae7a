"""`pqlab plan`: the matrix of cells, time, disk and what it can tell apart, before anything runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from pqbase.documents import Json, number_of, number_or_none, part_of, whole_of
from pqevidence import commitment
from pqevidence.bundle import locate
from pqevidence.errors import EXIT_OK, LabError, UsageError
from pqevidence.expectation import Expectation, expectations, told, unanswerable
from pqevidence.linkload import beyond_links
from pqevidence.paths import results_dir, shown
from pqevidence.plan import Cell, plan_digest, plan_document
from pqevidence.scenario import Scenario, load_scenario
from pqevidence.share import Share
from pqlab.campaign.agents import Connect, Pair, tls_connector
from pqlab.campaign.begin import check_disk, latest_bundle, planned_cells
from pqlab.campaign.budget import estimate, load_costs
from pqlab.campaign.extension import Extension
from pqlab.campaign.hosts import check_pair
from pqlab.campaign.ring import SIM, at_ring
from pqlab.campaign.settle import greet
from pqlab.cli.common import add_inventory, add_out, add_overrides, add_scenario, overrides_of, print_json
from pqlab.inventory import Inventory, load_inventory, load_pairs
from pqlab.lab_number import on_lab
from pqlab.pairs.words import require_for_pairs
from pqlab.progress import clock_text

#: a simulated campaign has at most so many pairs
MOST_MACHINES = 256

HELP = "print the cells of a scenario, their order, expected time, disk and precision"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_overrides(parser)
    add_inventory(parser)
    add_out(parser, "results folder whose newest bundle gives the expected times (default: results)")
    add_plan_options(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="also look whether a run could begin now (agents, builds, disk); nothing is started",
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Options that `plan` and `run --dry-run` share."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="BUNDLE",
        help="bundle that gives expected times and spread (default for times: the newest)",
    )
    parser.add_argument(
        "--seal",
        metavar="FILE",
        help="write the digest of the plan, to publish before the run; a run adds its agents' keys",
    )
    parser.add_argument(
        "--into", metavar="BUNDLE", help="sealed bundle to add to: only the cells that it lacks are run"
    )
    parser.add_argument(
        "--share", metavar="K/N", help="share K of N of the campaign's blocks, for one of N pairs of hosts"
    )
    parser.add_argument(
        "--pair", metavar="NAME", help="what the pair of hosts is called that carries out the share"
    )
    parser.add_argument(
        "--host-seed",
        type=host_seeds,
        metavar="S",
        help="ring sim: the machine to simulate; 1-4 or 1,2,5: one a pair, which share the campaign",
    )


def host_seeds(text: str) -> tuple[int, ...]:
    """`7`, `1-4` or `1,2,5` as whole numbers, each once. Raises ArgumentTypeError."""
    found: list[int] = []
    for part in text.split(","):
        if single := re.fullmatch(r"-?[0-9]{1,18}", part, re.ASCII):
            found.append(int(single[0]))
        elif (span := re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", part, re.ASCII)) and (
            0 <= int(span[2]) - int(span[1]) < MOST_MACHINES
        ):
            found += range(int(span[1]), int(span[2]) + 1)
        else:
            raise argparse.ArgumentTypeError(f"{text!r} is no seed, and no range of at most {MOST_MACHINES}")
    if len(set(found)) < len(found) or len(found) > MOST_MACHINES:
        raise argparse.ArgumentTypeError(f"{text!r} names a machine twice, or more than {MOST_MACHINES}")
    return tuple(found)


def share_of(args: argparse.Namespace, scenario: Scenario, inventory: Inventory) -> Share | None:
    """The share that is asked for, or that the inventory gives its pair; None for the whole campaign. Raises
    UsageError for one that there is not, and for options that do not go with it."""
    share = Share.asked(args.share, args.pair)
    if inventory.share is not None and args.share is not None and share != inventory.share:
        raise UsageError(
            "other-share",
            f"--share {args.share} is not the share of {inventory.share.pair}",
            f"in {inventory.file.name} it has {inventory.share.number}/{inventory.share.of}",
            "leave --share out",
        )
    share = inventory.share or share
    if share is None:
        return None
    share.blocks(scenario.repetitions)
    if args.into is not None or scenario.only:
        option, why = (
            ("--only", "`only` selects by cell id, which holds the builds of one pair of hosts")
            if scenario.only
            else ("--into", "what is added to a bundle of one pair is no share of a campaign")
        )
        raise UsageError(
            "not-shared",
            f"a share of a campaign does not go with {option}",
            why,
            "leave one of them out; shares are put together with ./pqlab merge",
        )
    return share


def require_simulated(args: argparse.Namespace, inventory: Inventory) -> None:
    """Raises UsageError for `--host-seed` where hosts are real."""
    if args.host_seed is not None and inventory.ring != SIM:
        raise UsageError(
            "not-simulated",
            "--host-seed is of ring sim alone",
            f"{inventory.file.name} names real hosts",
            "--inventory ansible/inventories/sim.ini, or leave it out",
        )


def host_seed(args: argparse.Namespace, inventory: Inventory) -> int | None:
    """Ring sim: the machine that is asked for, else that of the inventory's pair."""
    return args.host_seed[0] if args.host_seed else inventory.host_seed


def run(args: argparse.Namespace) -> int:
    """Raises ScenarioError (exit 2). A lab that is down costs the cell ids, not the plan; with --dry-run it
    is an error (exit 4)."""
    scenario = load_scenario(args.scenario, overrides_of(args))
    return show_plans(args, scenario, dry_run=args.dry_run)


def show_plans(args: argparse.Namespace, scenario: Scenario, *, dry_run: bool) -> int:
    """The plan of one pair, or of every pair of the inventory. Raises as `run`."""
    pairs = load_pairs(args.inventory, args.keys) if args.pair is None else ()
    if not pairs:
        inventory = load_inventory(args.inventory, args.keys, args.pair)
        return show_plan(args, scenario, inventory, dry_run=dry_run)
    require_for_pairs(args)
    return _show_pairs(args, scenario, pairs, dry_run=dry_run)


def _show_pairs(
    args: argparse.Namespace, scenario: Scenario, pairs: tuple[Inventory, ...], *, dry_run: bool
) -> int:
    """A line a pair: its blocks, cells and time; then what all of them take, side by side."""
    from pqevidence.report.svg import counted  # slow to load, as in `_print`

    results = results_dir(args.out)
    named = locate(args.source, results) if args.source is not None else None
    costs = load_costs(named or latest_bundle(results))
    documents, lines = [], []
    for pair in pairs:
        share = share_of(args, scenario, pair)
        assert share is not None
        staged, connect = _ends(pair, scenario, pair.host_seed)
        with on_lab(pair.lab):
            providers, unknown = _providers(pair, staged, connect, must=dry_run)
        cells = planned_cells(staged, providers, share)
        budget = estimate(staged, cells, costs)
        document = plan_document(staged, cells, budget, run_id=None, created_utc=None, share=share)
        documents.append({**document, "cell_ids_unknown": unknown, "to_run": len(cells)})
        told = f"{_share_text(share, staged)}, {counted(len(cells), 'cell')}, {_length_text(budget)}"
        lines.append(f"{told}; {unknown}" if unknown else told)
    total = _sum_of([part_of(document, "budget") for document in documents])
    if dry_run:
        check_disk(results, whole_of(total, "disk_bytes"))
    shared = one_machine(pairs)
    if args.json:
        print_json(
            {"campaign": documents[0]["campaign"], "pairs": documents, "total": total, "one_machine": shared}
        )
        return EXIT_OK
    campaign = str(documents[0]["campaign"])
    print(f"campaign {campaign[:12]}… of {scenario.name} on {len(pairs)} pairs, side by side")
    for line in lines:
        print(line)
    virtual = "virtual, it passes in seconds: " if pairs[0].ring == SIM else ""
    alone = _length_text(part_of(total, "alone"))
    print(f"time: {virtual}side by side {_time_text(total)}; one after another {alone}")
    print(
        f"disk: about {whole_of(total, 'disk_bytes') / 1e6:.0f} MB, and as much again for the merged bundle"
    )
    if shared is not None:
        print(shared)
    if dry_run:
        print("a run could begin now; nothing was started")
    return EXIT_OK


def one_machine(pairs: tuple[Inventory, ...]) -> str | None:
    """What is to be said of pairs that are container labs of one machine; None where at most one is."""
    labs = [pair.share.pair for pair in pairs if pair.lab is not None and pair.share is not None]
    if len(labs) < 2:
        return None
    return (
        f"{', '.join(labs)} are container labs of one machine: they count as one host, and what one disturbs "
        "in another becomes invalid"
    )


def _sum_of(budgets: list[Json]) -> Json:
    """Of all pairs: the longest time of each kind, for they run side by side; `alone`: one after another; and
    the sum of the disk."""
    times: Json = {}
    alone: Json = {}
    for name in ("eta_s", "least_s", "most_s"):
        each = [number_or_none(budget, name) for budget in budgets]
        known = [one for one in each if one is not None]
        times[name], alone[name] = (max(known), sum(known)) if len(known) == len(each) else (None, None)
    first = budgets[0]
    kept = {name: first.get(name) for name in ("eta_source", "eta_reason")}
    disk_bytes = sum(whole_of(budget, "disk_bytes") for budget in budgets)
    return {**times, **kept, "alone": alone, "disk_bytes": disk_bytes}


def show_plan(args: argparse.Namespace, scenario: Scenario, inventory: Inventory, *, dry_run: bool) -> int:
    """Print the plan, or one JSON document of it."""
    share = share_of(args, scenario, inventory)
    require_simulated(args, inventory)
    results = results_dir(args.out)
    seal = commitment.place(args.seal)
    scenario, connect = _ends(inventory, scenario, host_seed(args, inventory))
    must = dry_run or args.into is not None or seal is not None
    providers, unknown = _providers(inventory, scenario, connect, must=must)
    named = locate(args.source, results) if args.source is not None else None
    source = named or latest_bundle(results)
    cells = planned_cells(scenario, providers, share)
    there: set[str] = set()
    if args.into is not None and providers is not None:
        extension = Extension.of(locate(args.into, results), scenario, providers)
        cells = extension.renumbered(cells)
        there = extension.cell_ids
    todo = [cell for cell in cells if cell.cell_id not in there]
    budget = estimate(scenario, todo, load_costs(source))
    if dry_run:
        check_disk(results, whole_of(budget, "disk_bytes"))
    expected = expectations(scenario, cells, named)
    document = plan_document(scenario, cells, budget, run_id=None, created_utc=None, share=share)
    if seal is not None:
        commitment.write(seal, document, {})
    if args.json:
        more = {
            "beyond_links": beyond_links(scenario, todo),
            "cannot_answer": unanswerable(scenario, cells),
            "cell_ids_unknown": unknown,
            "expected": [row.as_dict() for row in expected],
        }
        print_json({**document, **more, "to_run": len(todo)})
        return EXIT_OK
    _print(scenario, cells, todo, budget, expected, unknown)
    if share is not None:
        print(f"{_share_text(share, scenario)}, campaign {str(document['campaign'])[:12]}…")
    if seal is not None:
        print(f"sealed: plan {plan_digest(document)} in {shown(seal)}")
    if dry_run:
        print("a run could begin now; nothing was started")
    return EXIT_OK


def _print(
    scenario: Scenario,
    cells: list[Cell],
    todo: list[Cell],
    budget: Json,
    expected: list[Expectation],
    unknown: str | None,
) -> None:
    """The answer first, then the cells in the order in which they run."""
    from pqevidence.report.svg import counted  # the report is slow to load, and `run` has no use for it here

    sides = {"suite": len(scenario.suites), "condition": len(scenario.conditions)}
    sides["repetition"] = scenario.repetitions
    matrix = " × ".join(counted(count, side) for side, count in sides.items())
    print(f"{counted(len(cells), 'cell')}: {matrix}, order {scenario.order_method}, seed {scenario.seed}")
    twins = sum(1 for cell in cells if scenario.condition(cell.condition)["aa_of"] is not None)
    if twins:
        print(f"A/A pairs: {twins}")
    if len(todo) < len(cells):
        print(f"to run: {len(todo)}; the others are taken over unchanged")
    virtual = "virtual, it passes in seconds: " if scenario.ring == SIM else ""
    print(f"time: {virtual}{_time_text(budget)}")
    print(f"disk: about {whole_of(budget, 'disk_bytes') / 1e6:.0f} MB")
    for line in (*beyond_links(scenario, todo), *told(expected), *unanswerable(scenario, cells)):
        print(line)
    if unknown:
        print(f"cell ids: unknown, they hold the builds of both ends ({unknown})")
        if scenario.only:
            print("--only: not applied, it selects by cell id")
    print()
    width = len(str(len(cells)))
    for cell in cells:
        name = cell.cell_id or "-" * 16
        done = "" if cell in todo else "  (there already)"
        print(
            f"[{cell.position + 1:>{width}}] {name} {cell.suite_id} {cell.condition} "
            f"rep {cell.repetition}{done}"
        )


def _share_text(share: Share, scenario: Scenario) -> str:
    blocks = share.blocks(scenario.repetitions)
    first, last = blocks.start + 1, blocks.stop
    told = f"repetition {first}" if first == last else f"repetitions {first} to {last}"
    return f"share {share.number}/{share.of} on pair {share.pair}: {told} of {scenario.repetitions}"


def _time_text(budget: Json) -> str:
    known = budget["eta_s"] is not None
    why = f"handshakes as in {budget['eta_source']}" if known else budget["eta_reason"]
    return f"{_length_text(budget)} ({why})"


def _length_text(budget: Json) -> str:
    if budget["eta_s"] is not None:
        return f"about {clock_text(number_of(budget, 'eta_s'))}"
    least, most = (clock_text(number_of(budget, name)) for name in ("least_s", "most_s"))
    return f"unknown, between {least} and {most}"


def _ends(
    inventory: Inventory, scenario: Scenario, host_seed: int | None
) -> tuple[Scenario, Callable[[], Connect]]:
    """What makes connections to both ends, once asked; the simulation's are in this process."""
    if inventory.ring != SIM:
        return at_ring(scenario, inventory), lambda: tls_connector(inventory)
    from pqlab import sim
    from pqlab.sim.machine import SimMachine

    staged, lab = sim.stage(scenario, inventory, SimMachine(host_seed))
    return staged, lambda: lab.connect


def _providers(
    inventory: Inventory, scenario: Scenario, connect: Callable[[], Connect], *, must: bool
) -> tuple[Json | None, str | None]:
    """The builds at both ends, or why they are unknown."""
    try:
        pair = Pair(inventory, connect())
        try:
            hello = greet(pair)
            if must:
                check_pair(hello, scenario)
        finally:
            pair.close()
    except LabError as error:
        if must:
            raise
        return None, error.what
    return {role: facts["providers"] for role, facts in hello.items()}, None
