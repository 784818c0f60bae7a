"""The command line of the checker that stands alone: `python3 verify.pyz BUNDLE`.

One file made by `pqlab verify --export`: the checks of this version, for a machine that has Python and
nothing else. It opens no connection and writes nothing but its answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pqevidence import __version__
from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_INTERRUPTED, EXIT_USAGE, LabError, UsageError
from pqevidence.verify.command import carry_out
from pqevidence.verify.timestamps import Stamps

_EPILOG = (
    "exit codes: 0 all checks, 2 usage, 3 warnings, 4 no such bundle, 5 a check failed or cannot be read"
)


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line as every other error: what, why, next."""

    def error(self, message: str) -> NoReturn:
        raise UsageError("usage", message, self.format_usage().strip(), f"python3 {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Verify one bundle. Never raises for what a user can act on."""
    name = Path(sys.argv[0]).name
    parser = _Parser(prog=name, description="Check a result bundle, offline.", epilog=_EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", help="folder of the bundle")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--strict", action="store_true", help="warnings count as failed checks")
    parser.add_argument("--sealed", action="append", metavar="FILE", help="a file written before the run")
    parser.add_argument("--tsr", action="append", metavar="FILE", help="an RFC 3161 time stamp")
    parser.add_argument("--tsa", metavar="FILE", help="certificates (PEM) of authorities that you trust")
    parser.add_argument("--version", action="version", version=f"pqlab verify {__version__}")
    try:
        args = parser.parse_args(argv)
        _require_folder(args.bundle)
        path, sealed = Path(args.bundle), args.sealed or ()
        stamps = Stamps.of(args.tsr, args.tsa)
        return carry_out(
            path, args.bundle, as_json=args.json, strict=args.strict, sealed=sealed, stamps=stamps
        )
    except LabError as error:
        print(error.text(), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped by Ctrl-C", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away (`| head`)
        return EXIT_USAGE
    except OSError as error:
        print(
            f"error: {error.filename or 'a file'} cannot be used\n  why:  {error.strerror}", file=sys.stderr
        )
        return EXIT_ENVIRONMENT


def _require_folder(name: str) -> None:
    """Raises LabError (exit 4) where no folder of that name is; one that may not be entered fails a check."""
    try:
        there = Path(name).is_dir()
    except OSError:
        there = True
    if not there:
        raise LabError("no-bundle", f"no bundle {name}", "no folder of that name is here", "name its folder")
