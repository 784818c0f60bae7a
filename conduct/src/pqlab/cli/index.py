"""`pqlab index`: a folder of bundles as a static site and two tables, each bundle verified, rings apart."""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

from pqevidence.errors import EXIT_CHECK, EXIT_OK, EXIT_WARNING, LabError, UsageError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import listed, out_folder, print_json

HELP = "a site over a folder of bundles: machines, releases, lines of like runs"
#: an index begins with one page and two tables; of the others only those that an index wrote are taken away
OWN_FILES = ("index.html", "index.csv", "index-handshakes.csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="folder that holds bundles and archives (default: results)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder to write into (default: the same); outside DIR it keeps what was verified",
    )
    parser.add_argument(
        "--require",
        action="append",
        metavar="RULE",
        help="refuse what this rule would mark: licensed, attested, timed, …; repeat or separate by commas",
    )
    parser.add_argument(
        "--day", metavar="DATE", help="no run may have ended after this day, UTC (default: today)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="bundles looked at side by side")
    parser.add_argument(
        "--unverified", action="store_true", help="do not verify the bundles first; the pages say so"
    )


def run(args: argparse.Namespace) -> int:
    """0, 3 where a bundle is in the index with a warning, 5 where a submission was refused.

    Raises LabError `no-bundle` (4) where the folder is none or nothing in it claims to be a bundle;
    UsageError for a day or a rule that is none.
    """
    from pqevidence.index.alike import lines_of
    from pqevidence.index.cache import Looks, beside
    from pqevidence.index.entries import look_through, warned
    from pqevidence.index.page import Site
    from pqevidence.index.rules import required
    from pqevidence.index.tables import bundle_table, handshake_table
    from pqevidence.report.html import render_html

    root = results_dir(args.folder)
    if not root.is_dir():
        raise LabError(
            "no-bundle",
            f"there is no folder {shown(root)}",
            "an index is made of a folder of bundles",
            "name one, such as results",
        )
    require, day = required(list(listed(args.require))), _day(args.day)
    out = out_folder(args.out, root).resolve()
    looks = Looks(None) if args.unverified else beside(out, root)
    found = look_through(
        root,
        verify=not args.unverified,
        looks=looks,
        skip=_own(root, out),
        day=day,
        require=require,
        jobs=args.jobs or os.cpu_count() or 1,
    )
    if not found.entries and not found.refused:
        raise LabError(
            "no-bundle",
            f"{shown(root)} holds no bundle",
            f"{len(found.others)} other entries were seen",
            "name the folder that holds the bundles, not one of them; ./pqlab run smoke makes one",
        )
    lines = lines_of(found.entries)
    drawn = [line for line in lines if len(line.runs) > 1]
    tables = [bundle_table(found, lines), handshake_table(found.entries, lines)]
    texts = {name: render_html(page) for name, page in Site(found, lines, tables, root, out).pages().items()}
    out.mkdir(parents=True, exist_ok=True)
    _sweep(out, set(texts))
    written = [_write(out / f"{table.name}.csv", table.csv_text()) for table in tables]
    for name, text in texts.items():
        _write(out / name, text)
    code = EXIT_CHECK if found.refused else EXIT_WARNING if warned(found.entries) else EXIT_OK
    refused = [(entry.name, entry.refused) for entry in found.refused if entry.refused is not None]
    kept = sum(entry.kept for entry in found.entries)
    if args.json:
        print_json(
            {
                "page": shown(out / "index.html"),
                "pages": [shown(out / name) for name in texts],
                "tables": [shown(path) for path in written],
                "exit_code": code,
                "bundles_count": len(found.entries),
                "lines_count": len(drawn),
                "kept_count": kept,
                "refused": [{"bundle": n, "check": s.check, "reason": s.why} for n, s in refused],
                "marked": [
                    {"bundle": entry.name, "check": mark.check, "reason": mark.why}
                    for entry in found.entries
                    for mark in entry.marks
                ],
                "not_looked_into": [{"name": name, "reason": why} for name, why in found.others],
            }
        )
        return code
    print(
        f"{len(found.entries)} bundles, {len(drawn)} lines of like runs; {len(refused)} submissions refused"
    )
    if looks.folder is None and not args.unverified:
        print("nothing is kept for the next time: the index lies among the bundles (--out DIR elsewhere)")
    elif kept:
        print(f"{kept} bundles are as they were when this version verified them")
    for name, said in refused:
        print(f"refused: {name}: {said.told()}")
    for path in (*written, out / "index.html"):
        print(shown(path))
    return code


def _day(text: str | None) -> date:
    """The day asked for; else that of SOURCE_DATE_EPOCH, by which builds are made again, or today."""
    if text is not None:
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            raise UsageError("bad-day", f"--day {text} is no day", str(error), "--day 2026-12-31") from error
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch), UTC).date() if epoch.isdigit() else datetime.now(UTC).date()


def _own(root: Path, out: Path) -> frozenset[str]:
    """Names in the folder of bundles that are the index's own: its files, or the folder that it lies in."""
    if out == root:
        return frozenset({*OWN_FILES, *(path.name for path in _made(out))})
    if root in out.parents:
        return frozenset({out.relative_to(root).parts[0]})
    return frozenset()


def _write(path: Path, text: str) -> Path:
    """In one step, and never through a link that somebody put there: the index may lie among submissions."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".index-", delete=False) as half:
        half.write(text.encode())
    try:
        Path(half.name).chmod(0o644)
        Path(half.name).replace(path)
    except OSError:
        Path(half.name).unlink()
        raise
    return path


def _sweep(out: Path, names: set[str]) -> None:
    """Take away pages of machines and releases that are in the index no more."""
    for path in _made(out):
        if path.name not in names:
            path.unlink()


def _made(out: Path) -> list[Path]:
    """Pages that an index wrote there."""
    mark = "It is the digest of index.csv and index-handshakes.csv beside this page"
    found = [*out.glob("machine-????????.html"), *out.glob("release-*.html")] if out.is_dir() else []
    return [
        p for p in found if p.is_file() and not p.is_symlink() and mark in p.read_text("utf-8", "replace")
    ]
