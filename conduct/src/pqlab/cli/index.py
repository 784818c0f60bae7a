"""`pqlab index`: a folder of bundles as one static page and two tables, with lines over equal runs."""

from __future__ import annotations

import argparse

from pqevidence.errors import EXIT_OK, EXIT_WARNING, LabError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import out_folder, print_json

HELP = "a page and tables over a folder of bundles, with trends of equal runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="folder that holds bundles (default: results)"
    )
    parser.add_argument("--out", metavar="DIR", help="folder to write into (default: the same)")
    parser.add_argument(
        "--unverified", action="store_true", help="do not verify the bundles first; the page says so"
    )


def run(args: argparse.Namespace) -> int:
    """0, or 3 where a bundle is broken: it is listed with the reason.

    Raises LabError `no-bundle` (4) where the folder is none or holds no bundle.
    """
    from pqevidence.index.entries import look_through
    from pqevidence.index.page import page
    from pqevidence.index.tables import bundle_table, handshake_table, lines_of
    from pqevidence.report.html import render_html

    root = results_dir(args.folder)
    if not root.is_dir():
        raise LabError(
            "no-bundle", f"there is no folder {shown(root)}", "an index is made of a folder of bundles",
            "name one, such as results",
        )  # fmt: skip
    out = out_folder(args.out, root).resolve()
    found = look_through(root, verify=not args.unverified)
    if not found.entries:
        raise LabError(
            "no-bundle", f"{shown(root)} holds no bundle", f"{len(found.others)} other entries were seen",
            "name the folder that holds the bundles, not one of them; ./pqlab run smoke makes one",
        )  # fmt: skip
    lines = lines_of(found.entries)
    tables = [bundle_table(found.entries), handshake_table(found.entries)]
    text = render_html(page(found, lines, tables, root, out))
    out.mkdir(parents=True, exist_ok=True)
    written = [table.write(out) for table in tables]
    target = out / "index.html"
    target.write_text(text, encoding="utf-8", newline="\n")
    broken = [entry for entry in found.entries if entry.broken is not None]
    if args.json:
        print_json(
            {
                "page": shown(target), "tables": [shown(path) for path in written],
                "bundles_count": len(found.entries), "lines_count": len(lines),
                "broken": [{"bundle": entry.name, "reason": entry.broken} for entry in broken],
                "not_looked_into": [{"name": name, "reason": why} for name, why in found.others],
            }
        )  # fmt: skip
        return EXIT_WARNING if broken else EXIT_OK
    print(f"{len(found.entries)} bundles, {len(lines)} lines of equal runs")
    for entry in broken:
        print(f"broken: {entry.name}: {entry.broken}")
    for path in (*written, target):
        print(shown(path))
    return EXIT_WARNING if broken else EXIT_OK
