"""`pqlab verify`: is a bundle whole, and can its numbers be true? Offline; changes nothing."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pqlab.bundle import locate
from pqlab.cli.common import add_out, print_json
from pqlab.errors import EXIT_CHECK, EXIT_WARNING
from pqlab.paths import results_dir, shown

HELP = "check a bundle: fixity, schema, counts, plausibility"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", nargs="?", metavar="BUNDLE", help="path or run id (default: results/latest)"
    )
    add_out(parser)
    parser.add_argument("--strict", action="store_true", help="warnings count as failed checks")


def run(args: argparse.Namespace) -> int:
    """0 all checks · 3 warnings · 5 any check failed or unreadable."""
    from pqlab.verify import exit_code, format_lines, verify_bundle

    path = locate(args.bundle, results_dir(args.out))
    results = verify_bundle(path)
    code = exit_code(results)
    if args.strict and code == EXIT_WARNING:
        code = EXIT_CHECK
    if args.json:
        print_json({"bundle": shown(path), "exit_code": code, "checks": [asdict(r) for r in results]})
        return code
    for line in format_lines(results):
        print(line)
    return code
