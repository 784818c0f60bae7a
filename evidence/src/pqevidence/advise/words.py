"""An answer and a validation as lines of at most 80 columns, and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from pqbase.documents import Json
from pqevidence.advise.answer import SILENCE_S, Advice, Answer
from pqevidence.advise.evidence import Evidence
from pqevidence.advise.hold_out import Coverage, Held, coverage
from pqevidence.advise.predict import P95_OF, Interval
from pqevidence.advise.radio import Radio

_COLUMNS: Final = 80
_KEY: Final = 17
_CELLS_SHOWN: Final = 3
_REFUSED_SHOWN: Final = 6


def answer_lines(answer: Answer, evidence: Evidence) -> Iterator[str]:
    """The answer first, then what it rests on, then who was refused."""
    question = answer.question
    if not answer.advices:
        yield "no evidence" if _silent(answer) else "no suite fits"
    for place, advice in enumerate(answer.advices, start=1):
        yield f"{place}. {advice.suite_id} (level {advice.level})"
        for key, text in _told(advice, evidence):
            yield from _row(key, text)
    yield from _row("radio", str(question.radio))
    yield from _row("work of", f"{evidence.host} (ring {evidence.host.ring}, {evidence.host.bundle})")
    spanned = "; ".join(f"{evidence.names[r]} {_short(r)}" for r in evidence.radios)
    yield from _row("evidence", f"{', '.join(evidence.bundles)}: {spanned}")
    if answer.advices:
        yield from _row("AEAD", "changes no byte of a handshake: the first that you did not exclude is named")
    refused = list(answer.refused.items())
    for suite_id, why in refused[:_REFUSED_SHOWN]:
        yield from _row("not", f"{suite_id}: {why}")
    if (more := len(refused) - _REFUSED_SHOWN) > 0:
        yield from _row("not", f"{more} others; --json names them with their reasons")


def _silent(answer: Answer) -> bool:
    """Is a candidate left that nothing is known of?"""
    return not answer.refused or any(why.startswith("no evidence") for why in answer.refused.values())


def _told(advice: Advice, evidence: Evidence) -> Iterator[tuple[str, str]]:
    yield (
        "time to a link",
        f"p50 {_s(advice.p50_s)}, p95 {_s(advice.p95_s)}; nine times in ten one takes {_both(advice.one_s)}, "
        f"the p95 of {P95_OF} is {_both(advice.of_p95_s)}",
    )
    yield (
        "air",
        f"{advice.air_bytes:,} bytes, {_s(advice.air_s)} a handshake; {advice.air_share_pct:.2g} % of the "
        "flight with its rekeys",
    )
    yield (
        "rekeys",
        f"{advice.rekeys_count} a flight, {_s(advice.rekey_s)} each, {_s(advice.rekeys_air_s)} of air "
        "together; the old keys carry on meanwhile",
    )
    yield (
        "loss of control",
        f"{_s(advice.loss_of_control_s)} after a lost session, up to {_s(advice.loss_of_control_most_s)}: "
        f"{SILENCE_S:g} s of silence, then a handshake at its p95",
    )
    if advice.energy_j is None:
        yield "energy", f"unknown: {advice.energy_reason}"
    else:
        share = advice.battery_share_pct
        of = "" if share is None else f"; {share:.2g} % of the battery a flight"
        yield "energy", f"{advice.energy_j:.3g} J a handshake at the drone{of}"
    shown = ", ".join(cell[:8] for cell in advice.cells[:_CELLS_SHOWN])
    rest = len(advice.cells) - _CELLS_SHOWN
    yield (
        "rests on",
        f"{advice.handshakes_count} handshakes over {advice.radios_count} radios in {len(advice.cells)} "
        f"cells: {shown}{f' and {rest} more (--json)' if rest > 0 else ''}",
    )


def _row(key: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=f"   {key:<{_KEY}}",
        subsequent_indent=" " * (_KEY + 3),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _short(radio: Radio) -> str:
    return f"({radio.rate_kbps:g} kbit/s, {radio.delay_ms:g} ms, {radio.loss_pct:g} %)"


def _s(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def _both(interval: Interval) -> str:
    return f"{_s(interval.low).removesuffix(' s')} to {_s(interval.high)}"


def answer_json(answer: Answer, evidence: Evidence) -> Json:
    """All of it; what is infinite (a handshake that is cut off) is null."""
    return {
        "radio": asdict(answer.question.radio),
        "host": {"bundle": evidence.host.bundle, "ring": evidence.host.ring, **evidence.host.names},
        "bundles": evidence.bundles,
        "advices": [_finite(asdict(advice)) for advice in answer.advices],
        "refused": answer.refused,
        "unused_conditions": evidence.unused,
    }


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


def held_lines(rows: list[Held], spoken: list[str], evidence: Evidence) -> Iterator[str]:
    """One line a left-out radio, then all together, then what is missed and what speaks against advice."""
    yield "left out            cells  silent  p95 inside   single times inside"
    for radio in evidence.radios:
        mine = [row for row in rows if row.radio == radio]
        yield _counts(evidence.names[radio], mine)
    yield _counts("all", rows)
    for row in rows:
        if row.p95_inside is False and row.of_p95_s is not None and row.measured_p95_s is not None:
            kem, sig = row.pair
            yield (
                f"outside: {kem} {sig}, {evidence.names[row.radio]}: p95 {_s(row.measured_p95_s)} of "
                f"{row.handshakes_count}, stated {_both(row.of_p95_s)}"
            )
    why = Counter(row.silent for row in rows if row.silent is not None)
    for reason, count in sorted(why.items()):
        yield f"silent on {count} pairs: {reason}"
    yield f"advice that a cell speaks against: {len(spoken) or 'none'}"
    yield from spoken


def _counts(name: str, rows: list[Held]) -> str:
    told = coverage(rows)
    return (
        f"{name:<20}{told.cells_count:5}  {told.silent_count:6}  "
        f"{_of(told.p95_inside_count, told.p95_count):>10}   "
        f"{_of(told.times_inside_count, told.times_count):>19}"
    )


def _of(inside: int, count: int) -> str:
    return f"{inside}/{count} {100 * inside / count:.0f} %" if count else "–"


def held_json(rows: list[Held], counts: Coverage, spoken: list[str], evidence: Evidence) -> Json:
    """Every pair of every left-out radio."""
    return {
        "bundles": evidence.bundles,
        "counts": {**asdict(counts), "p95_pct": counts.p95_pct, "times_pct": counts.times_pct},
        "contradictions": spoken,
        "rows": [_finite({**asdict(row), "p95_inside": row.p95_inside}) for row in rows],
    }
