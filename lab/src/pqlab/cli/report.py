"""`pqlab report`: a bundle's report again, from the bundle alone. A sealed bundle is never written to."""

from __future__ import annotations

import argparse
from pathlib import Path

from pqlab.bundle import locate
from pqlab.bundle.survey import require_safe
from pqlab.cli.common import print_json
from pqlab.errors import EXIT_OK
from pqlab.paths import project_root, shown

HELP = "write a bundle's report again (HTML and Markdown)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", nargs="?", metavar="BUNDLE", help="path or run id (default: results/latest)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder to write into (default: report-RUN_ID beside it)"
    )


def run(args: argparse.Namespace) -> int:
    """Raises LabError when the bundle is not there or cannot be read."""
    from pqlab.report import render

    bundle = locate(args.bundle, project_root() / "results")
    require_safe(bundle)
    folder = Path(args.out) if args.out else bundle.parent / f"report-{bundle.name}"
    html, markdown = render(bundle, folder)
    sealed = bundle / "data" / "report.html"
    same = html.read_bytes() == sealed.read_bytes() if sealed.is_file() else None
    if args.json:
        print_json({"report": shown(html), "markdown": shown(markdown), "same_as_sealed": same})
        return EXIT_OK
    if same is not None:
        print("the same bytes as in the bundle" if same else "differs from the report in the bundle")
    print(shown(markdown))
    print(shown(html))
    return EXIT_OK
