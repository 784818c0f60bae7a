"""`pqlab heal`: both agents back to idle, after a controller died or was killed."""

from __future__ import annotations

import argparse

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK
from pqlab.campaign.agents import tls_connector
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.heal import heal
from pqlab.campaign.ring import SIM
from pqlab.cli.common import add_inventory, print_json
from pqlab.cli.run import controller
from pqlab.inventory import load_inventory

HELP = "stop whatever cell an agent still holds; refuses while a run is in progress on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory(parser)
    parser.add_argument(
        "--wait-s", type=float, default=30.0, metavar="S", help="try an agent that is away so long (30)"
    )


def run(args: argparse.Namespace) -> int:
    """Exit 0 when both are idle, 4 when one is not. Raises LabError while another pqlab drives them."""
    inventory = load_inventory(args.inventory, args.keys)
    healed = []
    if inventory.ring != SIM:
        with controller(inventory):
            healed = heal(inventory, tls_connector(inventory), SystemClock(), args.wait_s)
    if args.json:
        print_json({"agents": [row.as_dict() for row in healed]})
    else:
        for row in healed:
            print(f"[{'x' if row.ok else ' '}] {row.role}: {row.did}")
            if row.hint:
                print(f"    next: {row.hint}")
    return EXIT_OK if all(row.ok for row in healed) else EXIT_ENVIRONMENT
