"""`pqlab tune`: set what makes figures steady and a file of the kernel can set; remembered for `pqlab
untune`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.errors import EXIT_OK, EXIT_WARNING
from pqevidence.paths import project_root
from pqlab.cli.common import print_json
from pqlab.doctor import REQUIREMENTS, System, tuning

HELP = "set governor, turbo and socket buffers of this machine for a run (root); untune gives them back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to remember."""
    parser.add_argument(
        "--state",
        type=Path,
        default=tuning.DEFAULT_STATE,
        metavar="FILE",
        help=f"what to give back (default: {tuning.DEFAULT_STATE})",
    )


def run(args: argparse.Namespace) -> int:
    """Exit 0 when all is as wished, 3 when the kernel refused something, 4 when this user may not."""
    outcomes = tuning.tune(REQUIREMENTS, System(project_root()), args.state)
    return tell(outcomes, args, "nothing to set: this machine is as wished, or offers no switch")


def tell(outcomes: list[tuning.Outcome], args: argparse.Namespace, nothing: str) -> int:
    """One line a file, or JSON; 3 when something was refused or left."""
    code = EXIT_WARNING if any(row.done in ("refused", "left") for row in outcomes) else EXIT_OK
    if args.json:
        print_json(
            {"exit_code": code, "state": str(args.state), "outcomes": [row.as_dict() for row in outcomes]}
        )
        return code
    for row in outcomes:
        change = row.now if row.before == row.now else f"{row.before} → {row.now}"
        print(f"{row.done:8}  /{row.path}: {change}{'  (' + row.detail + ')' if row.detail else ''}")
    if not outcomes:
        print(nothing)
    return code
