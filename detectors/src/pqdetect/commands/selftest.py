"""Hold every model here against its parity vectors: the deployed graph says what the trained model said."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqdetect.models import card as cards

HELP = "hold the models against their parity vectors"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME", help="only this one (repeatable)"
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="models elsewhere (default $PQ_MODELS)")


def run(args: argparse.Namespace) -> int:
    """One line a model; 3 when one differs."""
    from pqdetect.model import ModelError, load
    from pqdetect.models import vectors

    root = args.models or cards.models_folder()
    names = args.model or sorted(path.parent.name for path in root.glob(f"*/{vectors.FILE}"))
    if not names:
        raise ModelError(f"{root} holds no model with parity vectors")
    bad = 0
    for name in names:
        apart = vectors.difference(load(root / name), root / name)
        try:
            vectors.demand(apart, root / name)
        except ModelError as error:
            bad += 1
            print(f"[ ] {error}")
        else:
            print(f"[x] {name}: {apart:.1e} from the trained model's scores, window by window")
    return 3 if bad else 0
