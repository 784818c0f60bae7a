"""`pqlab untune`: give this machine back what `pqlab tune` found there."""

from __future__ import annotations

import argparse

from pqevidence.paths import project_root
from pqlab.cli import tune
from pqlab.doctor import System, tuning

HELP = "give this machine back what tune changed, and only that"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where it was remembered, and whether others' changes since are overruled."""
    tune.add_arguments(parser)
    parser.add_argument(
        "--force", action="store_true", help="also where somebody else has set another value since"
    )


def run(args: argparse.Namespace) -> int:
    """Exit 0 when everything is given back, 3 when something is not, 4 when this user may not."""
    outcomes = tuning.untune(System(project_root()), args.state, force=args.force)
    return tune.tell(outcomes, args, "nothing was tuned")
