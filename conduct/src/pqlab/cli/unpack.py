"""`pqlab unpack`: a bundle out of an archive, refused unless it is exactly what was sealed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.errors import EXIT_OK, UsageError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import add_out, print_json

HELP = "unpack an archive into results/, checked on the way"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .tar.zst written by ./pqlab archive")
    add_out(parser, "folder that gets the bundle (default: results)")
    parser.add_argument(
        "--max-gib",
        type=int,
        metavar="N",
        default=8,
        help="most that its files may have together (default 8)",
    )
    parser.add_argument(
        "--verify-signature",
        metavar="ALLOWED_SIGNERS",
        help="file of OpenSSH; FILE.sig must be by --identity",
    )
    parser.add_argument(
        "--identity", metavar="NAME", help="who must have signed, as ALLOWED_SIGNERS calls them"
    )


def run(args: argparse.Namespace) -> int:
    """Raises ArchiveError, SignatureError, LabError exists; UsageError for options that do not fit."""
    from pqevidence.bundle.signature import SUFFIX, check
    from pqevidence.bundle.unpack import unpack

    if (args.verify_signature is None) != (args.identity is None):
        raise UsageError(
            "half-a-signature-check",
            "--verify-signature and --identity go together",
            "a signature is checked against a name",
            "--verify-signature ALLOWED_SIGNERS --identity NAME",
        )
    if args.max_gib < 1:
        raise UsageError("bad-limit", f"--max-gib {args.max_gib} lets nothing in", "", "--max-gib 8")
    file, signed = Path(args.file), False
    beside = file.with_name(file.name + SUFFIX)
    with file.open("rb") as content:  # one opening, so that what was checked is what is unpacked
        if args.verify_signature is not None:
            check(content, beside, Path(args.verify_signature), args.identity)
            signed = True
        done = unpack(content, results_dir(args.out), args.max_gib << 30)
    follow = f"./pqlab verify {shown(done.bundle)}"
    if args.json:
        print_json(
            {
                "bundle": shown(done.bundle),
                "files_count": done.files_count,
                "content_bytes": done.content_bytes,
                "signed_by": args.identity if signed else None,
                "next": follow,
            }
        )
        return EXIT_OK
    print(f"{done.files_count} files, {done.content_bytes:,} bytes, as they were sealed")
    if signed:
        print(f"signed by {args.identity}")
    elif beside.is_file():
        print(f"{beside.name} lies beside it and was not checked: --verify-signature, --identity")
    print(shown(done.bundle))
    print(f"whether its numbers can be true: {follow}")
    return EXIT_OK
