"""Command line: every module of `pqdetect.commands` is a verb; this file knows none of them.

A verb's module has `HELP` (one line), `add(parser)` and `run(args) -> exit code`. Only the verb that is asked
for is imported, so that a service does not pay for what training needs.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

import pqdetect.commands
from pqbase.workers import WorkersError
from pqdetect import __version__
from pqdetect.errors import DetectError, UsageError

EXIT_OK, EXIT_USAGE, EXIT_ENVIRONMENT = 0, 2, 4


def verbs() -> dict[str, str]:
    """Verb → module name, by alphabet; `compare_sim.py` is the verb `compare-sim`."""
    names = sorted(module.name for module in pkgutil.iter_modules(pqdetect.commands.__path__))
    return {name.replace("_", "-"): f"pqdetect.commands.{name}" for name in names}


def _overview() -> str:
    lines = [f"  {verb:14} {importlib.import_module(module).HELP}" for verb, module in verbs().items()]
    return "verbs:\n" + "\n".join(lines)


def _parser(verb: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"pqdetect {verb}", description=module.__doc__)
    module.add(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code (0 done, 2 usage, 4 environment)."""
    given = list(sys.argv[1:] if argv is None else argv)
    table = verbs()
    if not given or given[0] in ("-h", "--help"):
        print(f"usage: pqdetect VERB [options]\n\n{_overview()}")
        return EXIT_OK if given else EXIT_USAGE
    if given[0] == "--version":
        print(f"pqdetect {__version__}")
        return EXIT_OK
    verb = given[0]
    if verb not in table:
        print(f"pqdetect: no verb {verb!r}\n  next: one of {', '.join(table)}", file=sys.stderr)
        return EXIT_USAGE
    module = importlib.import_module(table[verb])
    args = _parser(verb, module).parse_args(given[1:])
    try:
        code: int = module.run(args)
    except WorkersError as error:
        print(error.text("pqdetect"), file=sys.stderr)
        return error.exit_code
    except DetectError as error:
        print(error.text("pqdetect"), file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ENVIRONMENT
    return code
