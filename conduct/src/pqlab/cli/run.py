"""`pqlab run`: a scenario, from the first cell to a sealed bundle and its report."""

from __future__ import annotations

import argparse
import contextlib
import errno
import secrets
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from pqbase.documents import counts_of, texts_of
from pqbase.workers import add_options
from pqevidence import commitment
from pqevidence.bundle import locate, open_bundle
from pqevidence.errors import LabError, UsageError
from pqevidence.paths import project_root, results_dir, shown
from pqevidence.record.quiet import busy_told
from pqevidence.scenario import Scenario, load_scenario
from pqevidence.share import Share
from pqlab.campaign.agents import tls_connector
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.engine import Campaign, Result, Surroundings
from pqlab.campaign.finish import exit_code
from pqlab.campaign.fleet import fleet_of, require_image
from pqlab.campaign.host_detectors import detectors_of
from pqlab.campaign.link_start import LabTimelines
from pqlab.campaign.neighbours import compose_neighbours
from pqlab.campaign.observers import compose_observers
from pqlab.campaign.outputs import production
from pqlab.campaign.owner import require_own_lab
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.campaign.ring import SIM, at_ring
from pqlab.campaign.silence import SETTLE_S
from pqlab.campaign.steady import look
from pqlab.campaign.store import read_json
from pqlab.campaign.supervisor import supervisor_of
from pqlab.cli.common import (
    add_inventory,
    add_out,
    add_overrides,
    add_scenario,
    overrides_of,
    print_json,
    stopped_by_signal,
)
from pqlab.cli.place import (
    add_place_options,
    add_rack_options,
    inventory_at,
    inventory_before,
    pairs_before,
    place_of,
    wanted_of,
)
from pqlab.cli.plan import add_plan_options, host_seed, require_simulated, share_of, show_plan, show_plans
from pqlab.cli.side_by_side import side_by_side
from pqlab.cli.simulated import require_pure, run_pairs, where_of
from pqlab.inventory import AgentAddress, Inventory
from pqlab.progress import coloured, reporter

HELP = "run a scenario on the lab; ends with a sealed bundle and its report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_overrides(parser)
    add_run_options(parser)
    add_plan_options(parser)
    add_place_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and begin nothing")
    group = parser.add_argument_group("ring sim alone")
    add_options(group)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options that `run` and `resume` share."""
    add_inventory(parser)
    add_out(parser)
    parser.add_argument(
        "--strict", action="store_true", help="warnings and unsupported cells end with 1, not 3"
    )
    parser.add_argument(
        "--max-fail", type=_positive, metavar="N", help="stop after N failed or invalid cells; work is kept"
    )
    parser.add_argument(
        "--settle-s",
        type=_seconds,
        default=SETTLE_S,
        metavar="S",
        help=f"how long to wait for a quiet machine before the first cell (default {SETTLE_S:g})",
    )
    parser.add_argument(
        "--busy-ok",
        action="store_true",
        help="go on where the machine is not quiet; everything printed says so",
    )
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML, one test case a cell")
    add_rack_options(parser)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to a day")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Exit code as published; raises LabError (2 usage, 4 environment)."""
    scenario = load_scenario(args.scenario, overrides_of(args))
    require_pure(args)
    if pairs := pairs_before(args):
        return (
            show_plans(args, scenario, dry_run=True) if args.dry_run else side_by_side(args, scenario, pairs)
        )
    known = inventory_before(args)
    wanted = wanted_of(args, known)
    if args.dry_run:
        return show_plan(args, scenario, inventory_at(args, wanted.place if wanted else None), dry_run=True)
    require_junit_place(args.junit)
    where = where_of(args)
    if known is not None:
        require_simulated(args, known)
        share_of(args, scenario, known)
        if known.ring == SIM and (where is not None or len(args.host_seed or ()) > 1):
            return run_pairs(args, scenario, known, where)
    seal = commitment.place(args.seal)
    into = locate(args.into, results_dir(args.out)) if args.into is not None else None
    with place_of(wanted, reporter(json_output=args.json).note) as place:
        inventory = inventory_at(args, place.name)
        require_simulated(args, inventory)
        share = share_of(args, scenario, inventory)
        if inventory.ring == SIM:
            return report_result(args, _simulated(args, scenario, inventory, into, seal, share, place))
        begun = surroundings(args, inventory, into=into, seal=seal, share=share, place=place)
        with controller(inventory), begun as around:
            require_image(scenario, inventory.compose_project, around.reporter.note)
            return report_result(args, Campaign.begin(around, at_ring(scenario, inventory)).carry_out())


def _simulated(
    args: argparse.Namespace,
    scenario: Scenario,
    inventory: Inventory,
    into: Path | None,
    seal: Path | None,
    share: Share | None,
    place: Place,
) -> Result:
    """In virtual time, without a lab; imported here, because no other run needs it."""
    from pqlab import sim
    from pqlab.sim.machine import SimMachine

    return sim.carry_out(
        scenario,
        inventory,
        results=results_dir(args.out),
        reporter=reporter(json_output=args.json),
        token=lambda: secrets.token_hex(3),
        command=["pqlab", *map(_portable, sys.argv[1:])],
        strict=args.strict,
        max_fail=args.max_fail,
        into=into,
        seal=seal,
        share=share,
        machine=SimMachine(host_seed(args, inventory)),
        place=place,
    )


@contextlib.contextmanager
def surroundings(
    args: argparse.Namespace,
    inventory: Inventory,
    *,
    into: Path | None = None,
    seal: Path | None = None,
    share: Share | None = None,
    place: Place = NO_PLACE,
    only: tuple[str, ...] = (),
    rerun_failed: bool = False,
) -> Iterator[Surroundings]:
    """Real transport, clock, timelines and outputs. Raises UsageError for ring sim, which nothing resumes."""
    if inventory.ring == SIM:
        raise UsageError(
            "not-simulated",
            "a simulated run is not resumed",
            "its virtual time ended with its process, and the whole of it takes seconds",
            "begin anew: ./pqlab run SCENARIO --inventory ansible/inventories/sim.ini",
        )
    told = reporter(json_output=args.json)
    connect = tls_connector(inventory)
    neighbours = compose_neighbours(inventory.compose_project)
    timelines = LabTimelines(inventory.compose_project, told.note, place=place, neighbours=neighbours)
    around = Surroundings(
        inventory=inventory,
        results=results_dir(args.out),
        connect=connect,
        clock=SystemClock(),
        outputs=production(inventory.influx_url, inventory.influx_database),
        reporter=told,
        token=lambda: secrets.token_hex(3),
        command=["pqlab", *map(_portable, sys.argv[1:])],
        strict=args.strict,
        max_fail=args.max_fail,
        into=into,
        seal=seal,
        share=share,
        only=only,
        rerun_failed=rerun_failed,
        timeline=timelines.make,
        residents=detectors_of(inventory, connect, told.note),
        observers=compose_observers(inventory.compose_project),
        neighbours=neighbours,
        supervisor=supervisor_of(inventory.compose_project, told.note),
        fleet=fleet_of(inventory.compose_project),
        settle_s=args.settle_s,
        busy_ok=args.busy_ok,
        steadiness=look,
        place=place,
    )
    try:
        yield around
    finally:
        timelines.close()


def _portable(argument: str) -> str:
    """An argument as it may stand in a bundle: no path of this machine."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    path = Path(value)
    if not path.is_absolute():
        return argument
    root = project_root()
    inside = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
    return f"{option}{equals}{inside}"


def _closing(bundle: Path) -> list[str]:
    """What the run found. The bundle is sealed by now: what cannot be told of it is no failure of the run."""
    from pqevidence.summary import closing_lines  # the analysis is imported by who needs it

    try:
        return closing_lines(bundle)
    except (LabError, OSError, LookupError, ValueError) as error:
        return [f"no summary: {error}"]


def require_junit_place(file: str | None) -> None:
    """Raises UsageError for a `--junit` that could not be written after hours of work."""
    from pqevidence.exchange.junit import require_place

    require_place(file)


def _write_junit(file: str, root: Path, *, strict: bool) -> None:
    """One case a planned cell, those without a record included: nothing planned may be missing there."""
    from pqevidence.exchange.junit import write_junit
    from pqevidence.exchange.results import of_cells

    bundle = open_bundle(root)
    records = {str(record["cell_id"]): record for record in bundle.records()}
    unread = {"verdict": "not-run", "reason": "the cell left no record"}
    rows = [records.get(str(cell["cell_id"]), {**cell, **unread}) for cell in bundle.plan_cells]
    run = bundle.raw.run
    facts = {
        "run_id": bundle.run_id,
        "scenario": str(bundle.raw.plan.get("scenario")),
        "ring": str(bundle.raw.scenario.get("ring")),
    }
    if busy := busy_told(run):
        facts["busy"] = busy
    write_junit(file, f"{facts['scenario']} {bundle.run_id}", of_cells(rows, strict=strict), facts)


def report_result(args: argparse.Namespace, result: Result) -> int:
    """The last lines of a run: what it found, counts, then the report's path (or one JSON document)."""
    told = sys.stderr if args.json else sys.stdout
    if args.junit:
        _write_junit(args.junit, result.bundle, strict=args.strict)
    if busy := busy_told(read_json(result.bundle / "data" / "run.json")):
        print(f"busy machine: {busy}", file=told)
    for line in _closing(result.bundle):
        print(line, file=told)
    verdicts = result.verdict_counts.items()
    counts = (
        ", ".join(coloured(f"{count} {verdict}", verdict, told) for verdict, count in verdicts) or "sealed"
    )
    print(f"{shown(result.bundle)}: {counts}", file=told)
    print(shown(result.bundle / "data" / "report.html"), file=told)
    if args.json:
        print_json(
            {
                "bundle": shown(result.bundle),
                "verdict_counts": result.verdict_counts,
                "warnings": result.warnings,
                "report": shown(result.bundle / "data" / "report.html"),
            }
        )
    return result.exit_code


def report_sealed(args: argparse.Namespace, bundle: Path) -> int:
    """The same for a bundle that was sealed by a process which then died; a correction measured nothing and
    counts nothing."""
    run = read_json(bundle / "data" / "run.json")
    counts = counts_of(run, "verdict_counts", {})
    warnings = texts_of(run, "warnings", [])
    return report_result(
        args, Result(bundle, counts, warnings, exit_code(counts, warnings, strict=args.strict))
    )


@contextlib.contextmanager
def controller(inventory: Inventory) -> Iterator[None]:
    """This process alone orders cells on this lab; a polite request to end is treated as Ctrl-C.

    The lock is a name in the kernel for each agent's address: it needs no file, holds across checkouts of
    this machine, and is gone with the process, however that dies. Raises LabError when it is held, and when
    the container lab is another checkout's.
    """
    require_own_lab(inventory)
    with stopped_by_signal(), contextlib.ExitStack() as held:
        for address in inventory.agents.values():
            held.enter_context(_hold(address))
        yield


@contextlib.contextmanager
def _hold(address: AgentAddress) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as name:
        try:
            name.bind(f"\0pqlab-controller/{address.host}:{address.port}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise LabError(
                "lab-busy",
                f"another pqlab is driving the {address.role} agent at {address.host}:{address.port}",
                "two controllers would mix their cells",
                "./pqlab status shows its run; wait for it, or stop it with Ctrl-C there",
            ) from error
        yield
