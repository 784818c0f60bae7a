"""`pqlab doctor`: what this machine has for the lab; with `--inventory` both ends of a lab as well. Only
looks."""

from __future__ import annotations

import argparse

from pqevidence.paths import project_root
from pqlab.campaign.agents import tls_connector
from pqlab.campaign.ring import SIM
from pqlab.cli.common import add_inventory, print_json
from pqlab.doctor import exit_code, pair, render_table, run_checks, to_json, windows
from pqlab.doctor.model import examine
from pqlab.doctor.system import System
from pqlab.inventory import load_inventory

HELP = "look at this machine: what the lab needs, what is missing, the next command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which ends to ask; none without `--inventory`."""
    add_inventory(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is there, 3 when something wanted is missing, 4 when something needed is."""
    inventory = None if args.inventory is None else load_inventory(args.inventory, args.keys)
    findings = run_checks(project_root(), inventory is None or inventory.compose_project is not None)
    if inventory is None or inventory.windows_station:
        findings += examine(windows.REQUIREMENTS, System(project_root()))
    if inventory is not None and inventory.ring != SIM:  # its ends exist only while a run simulates them
        both = pair.ask(inventory, tls_connector(inventory))
        findings += examine(pair.requirements(both), System(project_root()))
    if args.json:
        print_json(to_json(findings))
    else:
        print(render_table(findings))
    return exit_code(findings)
