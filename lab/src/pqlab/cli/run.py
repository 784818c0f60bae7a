"""`pqlab run`: a scenario, from the first cell to a sealed bundle and its report."""

from __future__ import annotations

import argparse
import contextlib
import errno
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pqlab.campaign.agents import tls_connector
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.engine import Campaign, Result, Surroundings
from pqlab.campaign.outputs import production
from pqlab.cli.common import add_inventory, add_out, add_overrides, add_scenario, overrides_of, print_json
from pqlab.errors import LabError
from pqlab.inventory import AgentAddress, Inventory, load_inventory
from pqlab.paths import project_root, results_dir, shown
from pqlab.progress import reporter
from pqlab.scenario import load_scenario

HELP = "run a scenario on the lab; ends with a sealed bundle and its report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    add_overrides(parser)
    add_run_options(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options that `run` and `resume` share."""
    add_inventory(parser)
    add_out(parser)
    parser.add_argument(
        "--strict", action="store_true", help="warnings and unsupported cells end with 1, not 3"
    )


def run(args: argparse.Namespace) -> int:
    """Exit code as published; raises LabError (2 usage, 4 environment)."""
    scenario = load_scenario(args.scenario, overrides_of(args))
    inventory = load_inventory(args.inventory, args.keys)
    with controller(inventory):
        return report_result(args, Campaign.begin(surroundings(args, inventory), scenario).carry_out())


def surroundings(args: argparse.Namespace, inventory: Inventory) -> Surroundings:
    """The real transport, clock and outputs."""
    return Surroundings(
        inventory=inventory,
        results=results_dir(args.out),
        connect=tls_connector(inventory),
        clock=SystemClock(),
        outputs=production(inventory.influx_url, inventory.influx_database),
        reporter=reporter(json_output=args.json),
        token=lambda: secrets.token_hex(3),
        command=["pqlab", *map(_portable, sys.argv[1:])],
        strict=args.strict,
    )


def _portable(argument: str) -> str:
    """An argument as it may stand in a bundle: no path of this machine."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    path = Path(value)
    if not path.is_absolute():
        return argument
    root = project_root()
    inside = str(path.relative_to(root)) if path.is_relative_to(root) else path.name
    return f"{option}{equals}{inside}"


def report_result(args: argparse.Namespace, result: Result) -> int:
    """The last lines of a run: counts, then the report's path (or one JSON document)."""
    told = sys.stderr if args.json else sys.stdout
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.verdict_counts.items())
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


@contextlib.contextmanager
def controller(inventory: Inventory) -> Iterator[None]:
    """This process alone orders cells on this lab; a polite request to end is treated as Ctrl-C.

    The lock is a name in the kernel for each agent's address: it needs no file, holds across checkouts of
    this machine, and is gone with the process, however that dies. Raises LabError when it is held.
    """

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with contextlib.ExitStack() as held:
            for address in inventory.agents.values():
                held.enter_context(_hold(address))
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
