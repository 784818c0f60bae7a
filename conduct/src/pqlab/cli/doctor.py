"""`pqlab doctor`: what this machine has for the lab; with `--inventory` both ends of a lab as well. Only
looks."""

from __future__ import annotations

import argparse

from pqevidence.paths import project_root
from pqlab.campaign.agents import tls_connector
from pqlab.campaign.ring import SIM
from pqlab.cli.common import add_inventory, add_pair, print_json
from pqlab.doctor import exit_code, lab_checks, of_lab, pair, render_table, run_checks, to_json, windows
from pqlab.doctor.model import examine
from pqlab.doctor.system import System
from pqlab.inventory import load_every

HELP = "look at this machine: what the lab needs, what is missing, the next command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which ends to ask; none without `--inventory`."""
    add_inventory(parser)
    add_pair(parser, "of an inventory of several pairs: one alone")


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is there, 3 when something wanted is missing, 4 when something needed is."""
    asked = () if args.inventory is None else load_every(args.inventory, args.keys, args.pair)
    containers = any(inventory.compose_project is not None for inventory in asked)
    numbered = [(one.share.pair, one.lab) for one in asked if one.share is not None and one.lab is not None]
    findings = run_checks(project_root(), not asked or containers, several_labs=bool(numbered))
    for name, lab in numbered:
        findings += lab_checks(project_root(), lab, f"{name}, container lab {lab.number}")
    if not asked or any(inventory.windows_station for inventory in asked):
        findings += examine(windows.REQUIREMENTS, System(project_root()))
    for inventory in asked:
        if inventory.ring != SIM:  # its ends exist only while a run simulates them
            both = pair.ask(inventory, tls_connector(inventory))
            found = examine(pair.requirements(both), System(project_root()))
            findings += of_lab(found, inventory.lab) if inventory.share is not None else found
    if args.json:
        print_json(to_json(findings))
    else:
        print(render_table(findings))
    return exit_code(findings)
