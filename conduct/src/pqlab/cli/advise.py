"""`pqlab advise`: which suite for this radio and this aircraft, from what bundles measured."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from pqbase.documents import part_of
from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_CHECK, EXIT_OK, EXIT_WARNING, LabError, UsageError
from pqevidence.paths import project_root, shown
from pqlab.cli.common import listed, print_json

if TYPE_CHECKING:
    from pqevidence.advise.predict import Model
    from pqevidence.advise.question import Question
    from pqevidence.advise.radio import Radio

HELP = "which suite for your radio and your aircraft, from what bundles measured"
_LEVELS: Final = (1, 3, 5)
_EXAMPLE: Final = "./pqlab advise --rate-kbps 800 --delay-ms 60 --loss-pct 0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundles",
        nargs="*",
        metavar="BUNDLE",
        help="path or run id of bundles with cells over radio links (default: results/latest)",
    )
    parser.add_argument("--rate-kbps", type=float, metavar="N", help="rate of your radio, each way, kbit/s")
    parser.add_argument("--delay-ms", type=float, metavar="MS", help="one way, ms")
    parser.add_argument("--loss-pct", type=float, metavar="PCT", help="packets lost, each way, percent")
    parser.add_argument("--mtu", type=int, default=1500, metavar="BYTES", help="largest IP packet (1500)")
    parser.add_argument(
        "--profile", metavar="OVERLAY", help="take the radio from an overlay in scenarios/overlays/"
    )
    parser.add_argument(
        "--host",
        metavar="BUNDLE",
        help="bundle whose drone and ground do the work (default: the first bundle's)",
    )
    parser.add_argument("--level", type=int, default=1, metavar="L", help="least NIST level: 1, 3 or 5 (1)")
    parser.add_argument(
        "--without",
        action="append",
        metavar="NAME",
        help="family or AEAD that must not be in it; repeat or separate by commas",
    )
    parser.add_argument("--outage-s", type=float, metavar="S", help="longest loss of control you tolerate, s")
    parser.add_argument(
        "--flight-min", type=float, default=30.0, metavar="MIN", help="length of a flight (30)"
    )
    parser.add_argument(
        "--rekey-min",
        type=float,
        default=10.0,
        metavar="MIN",
        help="new keys this often (10, as the drone does)",
    )
    parser.add_argument("--battery-wh", type=float, metavar="WH", help="for the share that handshakes take")
    parser.add_argument(
        "--validate",
        action="store_true",
        help="leave out each measured radio in turn, foretell it from the others, and count",
    )


def run(args: argparse.Namespace) -> int:
    """0 with advice, 3 where there is none ("no evidence", "no suite fits"). `--validate`: 0, or 3 where a
    cell speaks against advice.

    Raises UsageError for a question that is none, and LabError for bundles that answer none.
    """
    question = None if args.validate else _question(args)
    root = project_root() / "results"
    roots = [locate(name, root) for name in args.bundles or [None]]
    host = locate(args.host, root) if args.host else None
    for bundle in (*roots, *([host] if host else [])):
        require_safe(bundle)
    from pqevidence.advise.answer import answer
    from pqevidence.advise.evidence import gather
    from pqevidence.advise.predict import Model
    from pqevidence.advise.words import answer_json, answer_lines

    try:
        evidence = gather(roots, host)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise LabError(
            "damaged",
            f"{', '.join(map(shown, roots))} cannot be read as evidence",
            f"a file is not what its format says ({type(error).__name__}: {error})",
            f"./pqlab verify {shown(roots[0])} names it",
            EXIT_CHECK,
        ) from error
    model = Model(evidence)
    if question is None:
        return _validate(model, as_json=args.json)
    told = answer(question, model)
    if args.json:
        print_json(answer_json(told, evidence))
    else:
        print("\n".join(answer_lines(told, evidence)))
    return EXIT_OK if told.advices else EXIT_WARNING


def _validate(model: Model, *, as_json: bool) -> int:
    from pqevidence.advise.hold_out import contradictions, coverage, hold_out
    from pqevidence.advise.words import held_json, held_lines

    rows, spoken = hold_out(model), list(contradictions(model))
    if as_json:
        print_json(held_json(rows, coverage(rows), spoken, model.evidence))
    else:
        print("\n".join(held_lines(rows, spoken, model.evidence)))
    return EXIT_WARNING if spoken else EXIT_OK


def _question(args: argparse.Namespace) -> Question:
    from pqevidence.advise.question import Question, excluded_families, more_than_zero

    if args.level not in _LEVELS:
        raise UsageError(
            "bad-level", f"--level {args.level} is no NIST level", "suites have level 1, 3 or 5", "--level 3"
        )
    return Question(
        radio=_radio(args),
        flight_s=60 * more_than_zero("--flight-min", args.flight_min),
        rekey_every_s=60 * more_than_zero("--rekey-min", args.rekey_min),
        least_level=args.level,
        excluded=excluded_families(listed(args.without)),
        outage_s=None if args.outage_s is None else more_than_zero("--outage-s", args.outage_s),
        battery_wh=None if args.battery_wh is None else more_than_zero("--battery-wh", args.battery_wh),
    )


def _radio(args: argparse.Namespace) -> Radio:
    from pqevidence.advise.radio import Radio, asked_radio, radio_of
    from pqevidence.scenario.compose import read_overlay

    told = (args.rate_kbps, args.delay_ms, args.loss_pct)
    if args.profile is not None:
        if any(value is not None for value in told):
            raise UsageError(
                "bad-radio",
                "--profile and a radio of your own do not go together",
                "each is a whole radio",
                f"./pqlab advise --profile {args.profile}",
            )
        link = part_of(read_overlay(args.profile, None).data, "condition", {}).get("link")
        found = radio_of(link)
        if not isinstance(found, Radio):
            why = found or "it sets no link"
            raise UsageError("bad-radio", f"overlay {args.profile} is no radio for advice", why, _EXAMPLE)
        return asked_radio(found.rate_kbps, found.delay_ms, found.loss_pct, args.mtu)
    if any(value is None for value in told):
        raise UsageError(
            "no-radio",
            "advice needs a radio: --rate-kbps, --delay-ms and --loss-pct",
            "the radio decides by far more than the processor",
            _EXAMPLE,
        )
    return asked_radio(args.rate_kbps, args.delay_ms, args.loss_pct, args.mtu)
