"""Print the card of a model that is here: what it is, what it takes, what it was measured to do."""

from __future__ import annotations

import argparse
import json

HELP = "print a model's card as JSON"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--model", required=True, help="name of a model in PQ_MODELS, or its folder")


def run(args: argparse.Namespace) -> int:
    """Print it. Raises DetectError for a model that is not here or does not fit its card."""
    from pqdetect import model as models

    loaded = models.load(args.model)
    print(json.dumps({**loaded.card, "sha256": loaded.sha256}, indent=1, sort_keys=True))
    return 0
