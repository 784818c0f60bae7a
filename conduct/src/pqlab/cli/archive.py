"""`pqlab archive`: a sealed bundle as one file that can be sent, stored and signed."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.bundle import locate
from pqevidence.errors import EXIT_OK
from pqevidence.paths import project_root, shown
from pqlab.cli.common import add_bundle, print_json

HELP = "write a sealed bundle to one .tar.zst file, signed if asked"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument("--out", metavar="FILE", help="file to write (default: RUN_ID.tar.zst beside it)")
    parser.add_argument("--sign", metavar="KEY", help="OpenSSH private key; the signature goes to FILE.sig")


def run(args: argparse.Namespace) -> int:
    """Raises LabError when the bundle is not whole, or the file is there already."""
    from pqevidence.bundle.archive import ENDING, archive

    bundle = locate(args.bundle, project_root() / "results")
    target = Path(args.out) if args.out else bundle.parent / (bundle.name + ENDING)
    done = archive(bundle, target, Path(args.sign) if args.sign else None)
    if args.json:
        print_json(
            {
                "archive": shown(done.file),
                "signature": shown(done.signature) if done.signature else None,
                "files_count": done.files_count,
                "content_bytes": done.content_bytes,
                "archive_bytes": done.archive_bytes,
                "sha512": done.sha512,
            }
        )
        return EXIT_OK
    print(f"{done.files_count} files, {done.content_bytes:,} bytes in {done.archive_bytes:,}")
    print(f"sha512 {done.sha512}")
    for path in (done.file, done.signature):
        if path is not None:
            print(shown(path))
    print(f"unpack it elsewhere: ./pqlab unpack {done.file.name}")
    return EXIT_OK
