"""`pqlab bench-report`: results of `pqtunnel bench` as a bundle with its page; or check such a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqevidence.errors import EXIT_CHECK, EXIT_OK, LabError, UsageError
from pqevidence.paths import shown
from pqlab.cli.common import print_json

HELP = "make a bundle with tables and page from results of ./pqtunnel bench, or check one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="result folder of ./pqtunnel bench (either mode)")
    parser.add_argument("--with-energy", metavar="FOLDER", help="an energy run to report beside it")
    parser.add_argument("--board-log", metavar="LOG", help="serial log of an ESP32-C6 for the ladder")
    parser.add_argument("--out", metavar="DIR", help="the bundle (default: FOLDER-bundle)")
    parser.add_argument("--check", action="store_true", help="FOLDER is such a bundle: check it")


def run(args: argparse.Namespace) -> int:
    """0 written and all checks hold · 5 a check failed. Raises LabError for what cannot be read."""
    from pqlab.bench.bundle import check, write

    folder = Path(args.folder)
    for name in filter(None, (args.folder, args.with_energy)):
        if not Path(name).is_dir():
            why = "no folder of that name is here"
            raise LabError("no-bundle", f"no result {name}", why, f"./pqtunnel bench --out {name}")
    if args.check:
        if args.with_energy or args.board_log or args.out:
            raise UsageError("bench-check", "--check goes alone", "it writes nothing", "leave the rest out")
        results = check(folder)
    else:
        out = Path(args.out) if args.out else folder.with_name(folder.name + "-bundle")
        energy = Path(args.with_energy) if args.with_energy else None
        results = write(folder, energy, Path(args.board_log) if args.board_log else None, out)
    ok = all(one.passed for one in results)
    if args.json:
        rows = [{"name": r.name, "passed": r.passed, "observed": r.observed} for r in results]
        print_json({"checks": rows, "ok": ok})
        return EXIT_OK if ok else EXIT_CHECK
    for one in results:
        print(f"[{'x' if one.passed else ' '}] {one.name}: {one.observed}")
    if not args.check:
        print(shown(out / "data" / "report.md"))
        print(shown(out / "data" / "report.html"))
    return EXIT_OK if ok else EXIT_CHECK
