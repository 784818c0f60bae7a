"""`pqlab heal`: both agents back to idle, after a controller died or was killed."""

from __future__ import annotations

import argparse

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_OK
from pqlab.campaign.agents import tls_connector
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.heal import Healed, heal
from pqlab.campaign.ring import SIM
from pqlab.cli.common import add_inventory, add_pair, print_json
from pqlab.cli.run import controller
from pqlab.inventory import Inventory, load_every
from pqlab.lab_number import on_lab

HELP = "stop whatever cell an agent still holds; refuses while a run is in progress on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory(parser)
    add_pair(parser, "of an inventory of several pairs: one alone")
    parser.add_argument(
        "--wait-s", type=float, default=30.0, metavar="S", help="try an agent that is away so long (30)"
    )


def run(args: argparse.Namespace) -> int:
    """Exit 0 when both are idle, 4 when one is not. Raises LabError while another pqlab drives them."""
    healed = [
        (inventory, row)
        for inventory in load_every(args.inventory, args.keys, args.pair)
        for row in _healed(inventory, args.wait_s)
    ]
    if args.json:
        print_json({"agents": [{**_pair_of(inventory), **row.as_dict()} for inventory, row in healed]})
    else:
        for inventory, row in healed:
            whose = " ".join([*_pair_of(inventory).values(), row.role])
            print(f"[{'x' if row.ok else ' '}] {whose}: {row.did}")
            if row.hint:
                print(f"    next: {row.hint}")
    return EXIT_OK if all(row.ok for _, row in healed) else EXIT_ENVIRONMENT


def _healed(inventory: Inventory, wait_s: float) -> list[Healed]:
    if inventory.ring == SIM:
        return []
    with on_lab(inventory.lab), controller(inventory):
        return heal(inventory, tls_connector(inventory), SystemClock(), wait_s)


def _pair_of(inventory: Inventory) -> dict[str, str]:
    return {} if inventory.share is None else {"pair": inventory.share.pair}
