"""Entry of the `pqlab` command: picks the verb, prints errors as what / why / next, returns the exit code."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import NoReturn

from pqevidence.errors import EXIT_INTERRUPTED, EXIT_PIPE, LabError, UsageError
from pqlab import __version__
from pqlab.cli import codes
from pqlab.lab_number import of_this_lab

#: verbs in the order of a working day; each is a module beside this one
VERBS = (
    "setup", "doctor", "tune", "untune", "list", "validate", "show", "plan", "run", "live", "fly", "status",
    "resume", "discard", "heal", "verify", "report", "compare", "advise", "merge", "index", "export",
    "audit", "correct", "archive", "unpack", "recording", "bench-report", "import-ladder", "link",
    "completion",
)  # fmt: skip

_EPILOG = """exit codes:
  0 all pass   1 failed or invalid cells, or --fail-on met   2 usage or validation
  3 warnings or unsupported cells only, or no advice   4 environment, or no such bundle or run
  5 a check failed, or a bundle that cannot be read   130 interrupted (Ctrl-C)
  141 nobody reads the output any more (| head)       by verb: docs/EXIT-CODES.md"""


#: how argparse tells of a verb that is none
_WRONG_VERB = re.compile(r"argument VERB: invalid choice: '(.*?)'")


class _Parser(argparse.ArgumentParser):
    """Tells a wrong command line as every other error: what, why, next; exit 2; a document with `--json`."""

    def error(self, message: str) -> NoReturn:
        usage, hint = self.format_usage().strip(), f"./{self.prog} --help"
        if wrong := _WRONG_VERB.match(message):
            verb = wrong.group(1)
            close = get_close_matches(verb, VERBS, n=1)
            if close:
                hint = f"did you mean ./{self.prog} {close[0]}?"
            raise UsageError("usage", f"there is no verb `{verb}`", f"{usage}; --help lists the verbs", hint)
        raise UsageError("usage", message, usage, hint)


def _verb(name: str) -> ModuleType:
    return importlib.import_module(f"pqlab.cli.{name.replace('-', '_')}")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="pqlab",
        description="Measure a post-quantum MAVLink tunnel: plan, run, verify, report.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pqlab {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in VERBS:
        module = _verb(name)
        sub = verbs.add_parser(name, help=module.HELP, description=module.HELP, epilog=codes.epilog(name))
        sub.add_argument(
            "--json", action="store_true", help="machine-readable; the last line is one JSON document"
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run, parser=sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. Never raises for what a user can act on: prints it and returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    try:
        args, unknown = build_parser().parse_known_args(words)
        if unknown:
            _refuse(args.parser, unknown)
        code: int = args.run(args)
        sys.stdout.flush()  # what is still to be written may find that nobody reads it
    except LabError as error:
        return _say(error, as_json)
    except KeyboardInterrupt:
        print("\nstopped by Ctrl-C", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader of our output went away (`| head`): nothing is wrong here, and nothing was answered whole
        _drop_output()
        return EXIT_PIPE
    except OSError as error:
        # a place that cannot be read or written, met where no verb has more to say about it
        what = f"{error.filename or 'a file'} cannot be used"
        why = error.strerror or str(error)
        return _say(
            LabError("os", what, why, "name another place, or mend this one: ./pqlab doctor"), as_json
        )
    return code


def _drop_output() -> None:
    """Where the rest of the output goes, so that the interpreter's last flush finds no broken pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _refuse(verb: argparse.ArgumentParser, unknown: list[str]) -> NoReturn:
    """Raises UsageError for words that a verb does not take; names the option that one of them is like."""
    usage = " ".join(verb.format_usage().split())
    options = list(verb._option_string_actions)  # argparse has no other way to ask
    close = [like[0] for word in unknown if (like := get_close_matches(word.partition("=")[0], options, n=1))]
    hint = f"did you mean {close[0]}?" if close else f"./{verb.prog} --help"
    raise UsageError("usage", f"unrecognized arguments: {' '.join(unknown)}", usage, hint)


def _say(error: LabError, as_json: bool) -> int:
    error.hint = of_this_lab(error.hint)
    print(error.text(), file=sys.stderr)
    if as_json:
        print(json.dumps({"error": error.as_dict()}))
    return error.exit_code
