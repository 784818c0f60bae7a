"""`pqlab recording`: what the drones of a bundle saw, with what really happened, as detectors take it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.bundle import locate
from pqevidence.errors import EXIT_OK
from pqevidence.paths import project_root, shown
from pqlab.cli.common import add_bundle, print_json

HELP = "write a bundle's cells as recordings with ground truth, for pqdetect"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="folder to write one recording a cell into"
    )


def run(args: argparse.Namespace) -> int:
    """Raises LabError when no cell holds what its drone saw."""
    from pqevidence.recording import write_recordings

    bundle = locate(args.bundle, project_root() / "results")
    written, left_out = write_recordings(bundle, Path(args.out))
    if args.json:
        print_json({"recordings": [shown(path) for path in written], "left_out": left_out})
        return EXIT_OK
    for path in written:
        print(shown(path))
    print(f"{len(written)} recordings, {len(left_out)} cells left out")
    for why in left_out:
        print(f"  {why}")
    return EXIT_OK
