"""Is a radio foretold by the others? Each radio in turn is left out, foretold, and held against its cells.

A cell has few handshakes, and no 95th percentile is made of fewer than 20 values. So cells of one pair and
radio, which differ in AEAD alone, are pooled: where 20 handshakes come together, their measured p95 is held
against the interval stated for the p95 of as many. Beside it every single time, of large and small groups, is
held against the 90 % interval of one handshake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pqbase.stats import tail
from pqevidence.advise.answer import answer, candidates, outside
from pqevidence.advise.predict import Interval, Model, quantile_of
from pqevidence.advise.question import Question
from pqevidence.advise.radio import Radio
from pqevidence.advise.wire import Pair, pair_of
from pqtunnel import suites as registry

#: of the questions that advice is asked for on every left-out radio
LEVELS: Final = (1, 3, 5)
_FLIGHT_S: Final = 1800.0
_REKEY_S: Final = 600.0


@dataclass(frozen=True)
class Held:
    """One pair on a left-out radio. silent: why nothing is foretold; then the intervals are None.

    measured_p95_s: None below 20 handshakes. one_count: single times inside `one_s`.
    """

    radio: Radio
    pair: Pair
    cells_count: int
    handshakes_count: int
    measured_p50_s: float
    measured_p95_s: float | None
    silent: str | None = None
    p50_s: float | None = None
    one_s: Interval | None = None
    of_p95_s: Interval | None = None
    one_count: int = 0

    @property
    def p95_inside(self) -> bool | None:
        """Is the measured p95 inside the stated interval? None where there is none to ask about."""
        if self.measured_p95_s is None or self.of_p95_s is None:
            return None
        return self.of_p95_s.holds(self.measured_p95_s)


@dataclass(frozen=True)
class Coverage:
    """Counts over left-out radios: cells foretold and silent; of the foretold ones those with a p95 and those
    of them inside; single times and those inside."""

    cells_count: int
    silent_count: int
    p95_count: int
    p95_inside_count: int
    times_count: int
    times_inside_count: int

    @property
    def p95_pct(self) -> float | None:
        """Share of cells with a p95 whose p95 is inside, percent."""
        return 100.0 * self.p95_inside_count / self.p95_count if self.p95_count else None

    @property
    def times_pct(self) -> float | None:
        """Share of single times inside, percent."""
        return 100.0 * self.times_inside_count / self.times_count if self.times_count else None


def hold_out(model: Model) -> list[Held]:
    """Every pair of every radio, each radio foretold from the others."""
    return [row for radio in model.evidence.radios for row in _left_out(model, radio)]


def _left_out(model: Model, radio: Radio) -> Iterator[Held]:
    others = model.without(radio)
    for pair, group in sorted(model.evidence.groups[radio].items()):
        walls_s = group.walls_s
        if not walls_s:
            continue
        facts = (radio, pair, len(group.cells), len(walls_s), quantile_of(walls_s, 0.5), tail(walls_s, 0.95))
        silent = outside(pair, radio, others.evidence)
        if silent is not None:
            yield Held(*facts, silent=silent)
            continue
        foretold = others.predict(pair, radio)
        yield Held(
            *facts,
            p50_s=foretold.at(0.5),
            one_s=foretold.one,
            of_p95_s=foretold.of_many(0.95, len(walls_s)),
            one_count=sum(foretold.one.holds(wall_s) for wall_s in walls_s),
        )


def coverage(rows: list[Held]) -> Coverage:
    """Counts; cells are counted, pooled or not: three suites of a pool inside are three cells."""
    foretold = [row for row in rows if row.silent is None]
    asked = [row for row in foretold if row.p95_inside is not None]
    return Coverage(
        sum(row.cells_count for row in rows),
        sum(row.cells_count for row in rows if row.silent is not None),
        sum(row.cells_count for row in asked),
        sum(row.cells_count for row in asked if row.p95_inside),
        sum(row.handshakes_count for row in foretold),
        sum(row.one_count for row in foretold),
    )


def contradictions(model: Model) -> Iterator[str]:
    """Advice for a left-out radio that its own cells speak against, in sentences.

    A cell speaks against a suite that was advised where none of its handshakes completed, where its measured
    median lies above all that was stated for a p95, or where a suite that was not advised was, in the
    median, below all that was stated for the first.
    """
    for radio in model.evidence.radios:
        others, measured = model.without(radio), model.evidence.groups[radio]
        for level in LEVELS:
            given = answer(Question(radio, _FLIGHT_S, _REKEY_S, level), others).advices
            pairs = {advice.suite_id: _pair(advice.suite_id) for advice in given}
            for advice in given:
                group = measured.get(pairs[advice.suite_id])
                if group is None:
                    continue
                where = f"level {level}, {radio}: {advice.suite_id}"
                if not group.timed:
                    yield f"{where} made no handshake"
                elif quantile_of(group.walls_s, 0.5) > advice.of_p95_s.high:
                    yield f"{where} took {quantile_of(group.walls_s, 0.5):.3g} s in the median"
            if given:
                yield from _faster(radio, level, model, given[0].one_s.low, set(pairs.values()))


def _faster(radio: Radio, level: int, model: Model, low_s: float, advised: set[Pair]) -> Iterator[str]:
    for pair, suite in candidates(Question(radio, _FLIGHT_S, _REKEY_S, level), model.evidence).items():
        group = model.evidence.groups[radio].get(pair)
        if pair not in advised and group and group.timed and quantile_of(group.walls_s, 0.5) < low_s:
            yield f"level {level}, {radio}: {suite.id} was faster than what was advised"


def _pair(suite_id: str) -> Pair:
    return pair_of(registry.get(suite_id))
