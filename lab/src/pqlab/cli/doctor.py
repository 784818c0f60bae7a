"""`pqlab doctor`: what this machine has for the lab. Only looks."""

from __future__ import annotations

import argparse

from pqlab.cli.common import print_json
from pqlab.doctor import exit_code, render_table, run_checks, to_json
from pqlab.paths import project_root

HELP = "look at this machine: what the lab needs, what is missing, the next command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is there, 3 when something wanted is missing, 4 when something needed is."""
    findings = run_checks(project_root())
    if args.json:
        print_json(to_json(findings))
    else:
        print(render_table(findings))
    return exit_code(findings)
