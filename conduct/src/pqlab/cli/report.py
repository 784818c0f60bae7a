"""`pqlab report`: a bundle's report again, from the bundle alone. A sealed bundle is never written to."""

from __future__ import annotations

import argparse

from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, EXIT_OK, LabError
from pqevidence.paths import project_root, shown
from pqlab.cli.common import add_bundle, out_folder, print_json

HELP = "write a bundle's report again (HTML and Markdown)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--out", metavar="DIR", help="folder to write into (default: report-RUN_ID beside it)"
    )
    parser.add_argument(
        "--figures", action="store_true", help="also write each figure as an SVG file, into DIR/figures"
    )


def run(args: argparse.Namespace) -> int:
    """Raises LabError when the bundle is not there or cannot be read."""
    from pqevidence.analysis.merged import is_merged
    from pqevidence.pages import build, render, source_of
    from pqevidence.report.drawings import write_drawings

    bundle = locate(args.bundle, project_root() / "results")
    require_safe(bundle)
    folder = out_folder(args.out, bundle.parent / f"report-{bundle.name}")
    try:
        if is_merged(bundle):
            from pqevidence.merge.compose import write_pages

            html, markdown = write_pages(bundle, folder)
            drawn = []  # a merged bundle's page has tables alone; its parts have drawings
        else:
            html, markdown = render(bundle, folder)
            drawn = write_drawings(build(source_of(bundle)), folder / "figures") if args.figures else []
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise LabError(
            "damaged",
            f"no report can be made of {shown(bundle)}",
            f"a file in it is not what its format says ({type(error).__name__}: {error})",
            f"./pqlab verify {shown(bundle)} names it",
            EXIT_CHECK,
        ) from error
    sealed = bundle / "data" / "report.html"
    same = html.read_bytes() == sealed.read_bytes() if sealed.is_file() else None
    if args.json:
        print_json(
            {
                "report": shown(html),
                "markdown": shown(markdown),
                "same_as_sealed": same,
                "figures": [shown(path) for path in drawn],
            }
        )
        return EXIT_OK
    if same is not None:
        print("the same bytes as in the bundle" if same else "differs from the report in the bundle")
    if drawn:
        print(f"{len(drawn)} figures in {shown(folder / 'figures')}, their numbers in data/analysis/*.csv")
    print(shown(markdown))
    print(shown(html))
    return EXIT_OK
