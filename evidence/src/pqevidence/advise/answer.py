"""At most three suites for a question, or none with the reasons. Silent outside what was measured.

Suites of one KEM and signature are one candidate: they send the same bytes, so their handshakes take the same
time. Of them the first AEAD in the registry's order that is not excluded is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pqevidence.advise.evidence import Evidence
from pqevidence.advise.predict import P95_OF, Interval, Model, Prediction, deadline_s
from pqevidence.advise.question import Question
from pqevidence.advise.radio import LAB_MTU_BYTES, Radio
from pqevidence.advise.wire import Pair, air_bytes, least_seconds, pair_of
from pqtunnel import suites as registry
from pqtunnel.session import SILENCE_NS
from pqtunnel.suites import Suite

MOST: Final = 3
#: fewer radios span nothing
LEAST_RADIOS: Final = 3
#: of silence before a drone takes its session for lost and dials
SILENCE_S: Final = SILENCE_NS / 1e9
#: quantity of a radio → its unit
_SPANNED: Final[tuple[tuple[str, str, Callable[[Radio], float]], ...]] = (
    ("rate", "kbit/s", lambda radio: radio.rate_kbps),
    ("delay", "ms", lambda radio: radio.delay_ms),
    ("loss", "%", lambda radio: radio.loss_pct),
)  # fmt: skip


@dataclass(frozen=True)
class Advice:
    """One suite. p50_s, p95_s: of one handshake; of_p95_s: 90 % interval of the 95th percentile of 20.

    air_bytes, air_s: of one handshake, both ways together; air_share_pct: of the flight, its rekeys included.
    rekey_s: median time of one rekey, meanwhile the old keys carry on. loss_of_control_s: after a lost
    session, the silence and then a handshake at p95_s; up to loss_of_control_most_s. energy_j: of one
    handshake at the drone, None with energy_reason.
    """

    suite_id: str
    level: int
    p50_s: float
    p95_s: float
    one_s: Interval
    of_p95_s: Interval
    air_bytes: int
    air_s: float
    air_share_pct: float
    rekeys_count: int
    rekey_s: float
    rekeys_air_s: float
    loss_of_control_s: float
    loss_of_control_most_s: float
    energy_j: float | None
    energy_reason: str | None
    battery_share_pct: float | None
    handshakes_count: int
    radios_count: int
    cells: tuple[str, ...]


@dataclass
class Answer:
    """advices: the fastest first; refused: candidate → why it is none, in the order of least time."""

    question: Question
    advices: list[Advice] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def candidates(question: Question, evidence: Evidence) -> dict[Pair, Suite]:
    """Pairs that the question allows and of which anything is known, each with a suite that stands for it."""
    known = set(evidence.work_s) | {pair for pairs in evidence.groups.values() for pair in pairs}
    found: dict[Pair, Suite] = {}
    for suite in registry.ALL.values():
        if question.allows(suite) and pair_of(suite) in known:
            found.setdefault(pair_of(suite), suite)
    return found


def answer(question: Question, model: Model) -> Answer:
    """Looks at candidates by the least time that the radio allows, and stops where none can be faster.

    Fast is told by p50: where about one handshake in twenty waits a second for a lost first packet, chance
    decides which p95 is the smaller.
    """
    told = Answer(question)
    found: list[Advice] = []
    allowed = candidates(question, model.evidence)
    for pair, suite in sorted(allowed.items(), key=lambda item: least_seconds(item[1], question.radio)):
        if len(found) >= MOST and sorted(a.p50_s for a in found)[MOST - 1] < least_seconds(
            suite, question.radio
        ):
            break
        made = _judged(question, model, pair, suite)
        if isinstance(made, str):
            told.refused[suite.id] = made
        else:
            found.append(made)
    found.sort(key=lambda advice: (advice.p50_s, advice.air_bytes))
    told.advices = found[:MOST]
    return told


def _judged(question: Question, model: Model, pair: Pair, suite: Suite) -> Advice | str:
    radio, limit_s = question.radio, deadline_s(suite)
    least_s = least_seconds(suite, radio)
    if least_s > limit_s:
        return f"its handshake takes {least_s:.0f} s at least and is cut off after {limit_s:g}"
    if (why := outside(pair, radio, model.evidence)) is not None:
        return f"no evidence: {why}"
    prediction = model.predict(pair, radio)
    advice = _advice(question, model.evidence, pair, suite, prediction)
    if math.isinf(advice.p95_s):
        return f"more than one handshake in twenty is cut off after {limit_s:g} s"
    if question.outage_s is not None and advice.loss_of_control_most_s > question.outage_s:
        most_s = advice.loss_of_control_most_s
        return f"a lost session may take {most_s:.2f} s, {question.outage_s:g} are tolerated"
    return advice


def outside(pair: Pair, radio: Radio, evidence: Evidence) -> str | None:
    """Why the evidence does not reach to that radio; None where it does."""
    if not evidence.work_s.get(pair):
        return f"it was not measured on {evidence.host}"
    measured = list(evidence.of(pair))
    if len(measured) < LEAST_RADIOS:
        return f"it was measured over {len(measured)} radios, {LEAST_RADIOS} are needed"
    if radio.mtu_bytes != LAB_MTU_BYTES:
        return f"every cell had an MTU of {LAB_MTU_BYTES}"
    for name, unit, value in _SPANNED:
        values = [value(one) for one in measured]
        if not min(values) <= value(radio) <= max(values):
            return f"{name} {value(radio):g} {unit}, measured {min(values):g} to {max(values):g}"
    return None


def _advice(
    question: Question, evidence: Evidence, pair: Pair, suite: Suite, prediction: Prediction
) -> Advice:
    radio, groups = question.radio, evidence.of(pair)
    p95_s, of_p95_s = prediction.at(0.95), prediction.of_many(0.95, P95_OF)
    size = air_bytes(suite, radio)
    air_s, rekeys = radio.seconds(size), question.rekeys_count
    joules = evidence.energy_j.get(pair)
    energy_j = sum(joules) / len(joules) if joules else None
    share = None
    if energy_j is not None and question.battery_wh is not None:
        share = 100.0 * energy_j * (1 + rekeys) / (question.battery_wh * 3600)
    return Advice(
        suite_id=suite.id,
        level=suite.level,
        p50_s=prediction.at(0.5),
        p95_s=p95_s,
        one_s=prediction.one,
        of_p95_s=of_p95_s,
        air_bytes=size,
        air_s=air_s,
        air_share_pct=100.0 * air_s * (1 + rekeys) / question.flight_s,
        rekeys_count=rekeys,
        rekey_s=prediction.at(0.5),
        rekeys_air_s=air_s * rekeys,
        loss_of_control_s=SILENCE_S + p95_s,
        loss_of_control_most_s=SILENCE_S + of_p95_s.high,
        energy_j=energy_j,
        energy_reason=None if joules else _no_energy(evidence),
        battery_share_pct=share,
        handshakes_count=sum(len(group.timed) for group in groups.values()),
        radios_count=len(groups),
        cells=tuple(cell for group in groups.values() for cell in group.cells),
    )


def _no_energy(evidence: Evidence) -> str:
    if evidence.host.ring != "hardware":
        return f"energy is told from ring hardware alone, {evidence.host.bundle} is ring {evidence.host.ring}"
    return f"{evidence.host.bundle} holds no net energy of its handshakes"
