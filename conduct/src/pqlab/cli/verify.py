"""`pqlab verify`: is a bundle whole, and can its numbers be true? Offline; changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.bundle import locate
from pqevidence.errors import EXIT_CHECK, EXIT_OK, LabError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import add_bundle, add_out, print_json

HELP = "check a bundle: fixity, schema, counts, plausibility"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    add_out(parser)
    parser.add_argument("--strict", action="store_true", help="warnings count as failed checks")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML, one test case a check")
    parser.add_argument(
        "--sealed",
        action="append",
        metavar="FILE",
        help="hold the bundle against a file that --seal wrote before the run; repeat for more",
    )
    parser.add_argument(
        "--tsr",
        action="append",
        metavar="FILE",
        help="an RFC 3161 time stamp over a file of --sealed or over the bundle; repeat for more",
    )
    parser.add_argument("--tsa", metavar="FILE", help="certificates (PEM) of authorities that you trust")
    parser.add_argument(
        "--export", metavar="FILE", help="write these checks as one file that needs Python alone"
    )


def run(args: argparse.Namespace) -> int:
    """0 all checks · 3 warnings · 5 any check failed, or what is there cannot be read.

    Raises LabError (4) where there is no such bundle.
    """
    if args.export:
        return _export(Path(args.export), as_json=args.json)
    from pqevidence.exchange.junit import require_place
    from pqevidence.verify.command import carry_out
    from pqevidence.verify.timestamps import Stamps

    require_place(args.junit)
    try:
        path = locate(args.bundle, results_dir(args.out))
    except LabError as error:
        if error.code == "no-access":
            error.exit_code = EXIT_CHECK  # something is there, and it cannot be checked
        raise
    stamps = Stamps.of(args.tsr, args.tsa)
    return carry_out(
        path,
        shown(path),
        as_json=args.json,
        strict=args.strict,
        junit=args.junit,
        sealed=args.sealed or (),
        stamps=stamps,
    )


def _export(target: Path, *, as_json: bool) -> int:
    from pqevidence.verify.export import export

    done = export(target)
    if as_json:
        print_json({"file": shown(done.file), "files_count": done.files_count, "size_bytes": done.size_bytes})
        return EXIT_OK
    print(f"{shown(done.file)}: {done.files_count} files, {done.size_bytes:,} bytes")
    print(f"check a bundle with it anywhere: python3 {done.file.name} BUNDLE")
    return EXIT_OK
