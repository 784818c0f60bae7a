"""`pqlab correct`: take the result of cells of a sealed bundle back, or say something about them."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

from pqevidence.bundle import locate
from pqevidence.errors import EXIT_OK, UsageError
from pqevidence.paths import project_root, results_dir, shown
from pqlab.cli.common import add_bundle, add_out, listed, print_json

HELP = "a new bundle with a layer that takes results of a sealed one back, or remarks on them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what was wrong, in a sentence")
    parser.add_argument(
        "--withdraw",
        action="append",
        metavar="CELL",
        help="cell whose result is taken back (id or its beginning); repeat or separate by commas",
    )
    parser.add_argument(
        "--remark",
        action="append",
        nargs="?",
        const="",
        metavar="CELL",
        help="say the reason of this cell, or of the whole run, and change nothing",
    )
    parser.add_argument("--keys", metavar="DIR", help="keys the new files are searched for (default: keys)")
    add_out(parser, "results folder of the new bundle (default: results)")


def run(args: argparse.Namespace) -> int:
    """0 with the new bundle's path. Raises UsageError unless either --withdraw or --remark is given."""
    from pqevidence.bundle.corrections import REMARK, WITHDRAW
    from pqlab.campaign.clock import SystemClock
    from pqlab.campaign.correct import correct
    from pqlab.campaign.finish import secret_files

    if bool(args.withdraw) == bool(args.remark):
        raise UsageError(
            "usage",
            "give either --withdraw or --remark",
            "a correction is one layer of one kind",
            "./pqlab correct --help",
        )
    results = results_dir(args.out)
    keys = Path(args.keys) if args.keys else project_root() / "keys"
    root = locate(args.bundle, results)
    sealed = correct(
        root,
        results,
        action=WITHDRAW if args.withdraw else REMARK,
        cells=listed(args.withdraw or args.remark),
        reason=args.reason,
        clock=SystemClock(),
        token=secrets.token_hex(3),
        secrets=secret_files(keys) if args.keys or keys.is_dir() else [],
    )
    if args.json:
        print_json({"bundle": shown(sealed), "corrects": root.name})
        return EXIT_OK
    print(f"{root.name} stays as it was sealed; the corrected bundle is {shown(sealed)}")
    print(f"check it: ./pqlab verify {shown(sealed)}")
    print(shown(sealed / "data" / "report.html"))
    return EXIT_OK
