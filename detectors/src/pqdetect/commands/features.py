"""Print the names of the features, in their order, one a line."""

from __future__ import annotations

import argparse

from pqdetect.features import FEATURE_NAMES, FIVE_WINDOW_NAMES, MULTI_SCALE_NAMES

HELP = "list the features"

_SETS = {"window": FEATURE_NAMES, "five-window": FIVE_WINDOW_NAMES, "multi-scale": MULTI_SCALE_NAMES}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--set", choices=sorted(_SETS), default="window", help="which vector (default window)"
    )


def run(args: argparse.Namespace) -> int:
    """Print them."""
    print("\n".join(_SETS[args.set]))
    return 0
