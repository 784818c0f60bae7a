"""`pqlab audit`: which claims of a report follow from its data, ours or the published ones."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, EXIT_OK, LabError
from pqevidence.paths import results_dir, shown
from pqlab.cli.common import add_bundle, add_out, print_json

HELP = "list the claims of a report that do not follow from its data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--published", action="store_true", help="the published reports instead, from their published tables"
    )
    add_out(parser)


def run(args: argparse.Namespace) -> int:
    """0 every claim of the bundle follows · 5 one does not. With --published always 0: it is a finding."""
    return _published(args) if args.published else _own(args)


def _published(args: argparse.Namespace) -> int:
    from pqevidence.analysis.comparison import reference_dir
    from pqevidence.audit.published import FAILS, FOLLOWS, OPEN, judge

    folder = reference_dir()
    if folder is None:
        raise LabError(
            "no-reference",
            "the published tables are not here",
            "results/reference is part of the checkout",
            "run it in the checkout",
            EXIT_ENVIRONMENT,
        )
    claims = judge(folder)
    counts = {
        verdict: sum(claim.verdict == verdict for claim in claims) for verdict in (FOLLOWS, FAILS, OPEN)
    }
    if args.json:
        print_json({"claims": [asdict(claim) for claim in claims], "verdicts": counts})
        return EXIT_OK
    marks = {FOLLOWS: "[x]", FAILS: "[ ]", OPEN: "[?]"}
    for claim in claims:
        place = f"{claim.source}, {claim.section}"
        print(f"{marks[claim.verdict]} {place}: {claim.claim}: {claim.printed} {claim.unit}")
        print(f"      {claim.verdict}: {claim.observed}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return EXIT_OK


def _own(args: argparse.Namespace) -> int:
    from pqevidence.audit.own import audit

    bundle = locate(args.bundle, results_dir(args.out))
    require_safe(bundle)
    found = audit(bundle)
    code = EXIT_CHECK if found.unfounded or found.unsaid else EXIT_OK
    if args.json:
        print_json(
            {
                "bundle": shown(bundle),
                "printed_count": len(found.printed),
                "unfounded": [
                    {"printed": asdict(claim), "given": asdict(given) if given else None}
                    for claim, given in found.unfounded
                ],
                "unsaid": [asdict(claim) for claim in found.unsaid],
            }
        )
        return code
    for claim, given in found.unfounded:
        print(f"[ ] does not follow: {claim.statement}\n      printed: {claim.effect}; {claim.basis}")
        print(f"      the raw files give: {f'{given.effect}; {given.basis}' if given else 'no such claim'}")
    for claim in found.unsaid:
        print(f"[ ] follows and is not printed: {claim.statement} {claim.effect}; {claim.basis}")
    print(
        f"{len(found.printed)} claims printed, {len(found.unfounded)} do not follow, "
        f"{len(found.unsaid)} left out"
    )
    return code
