"""From evidence to the time of a handshake over a radio that nobody measured.

time = (draw of the transfer model + draw of both hosts' own work + what every handshake takes beside these)
times an error of the model. The third is the median of measured less modelled medians. Errors are what the
model was wrong by where it was measured: ln(measured median / modelled median), one for each pair and radio
of the evidence. A prediction mixes all of them, so that its interval is as wide as the model was wrong.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pqbase.stats import least_count, quantile7
from pqevidence.advise.evidence import Evidence
from pqevidence.advise.radio import Radio
from pqevidence.advise.transfer import handshake_seconds
from pqevidence.advise.wire import Pair, messages, suite_of
from pqtunnel.handshake.limits import BASE_DEADLINE_S
from pqtunnel.suites import Suite

DRAWS: Final = 500
_MIXED: Final = 2000
#: how many handshakes the stated 95th percentile is one of: the fewest that have one
P95_OF: Final = least_count(0.95)


@dataclass(frozen=True)
class Interval:
    """Ends of a 90 % interval, in the unit of what it is about."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Is it inside?"""
        return self.low <= value <= self.high


class Model:
    """The fit of one body of evidence. Draws depend on nothing but evidence, radio and suite."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        #: by radio and pair, kept because each is asked for again
        self._drawn: dict[tuple[Radio, Pair], list[float]] = {}
        #: (measured, modelled) median, s, of each pair and radio
        self._medians = {radio: list(self._medians_of(radio)) for radio in evidence.radios}

    def without(self, left_out: Radio) -> Model:
        """The fit as if that radio had not been measured."""
        held = copy.copy(self)
        held.evidence = self.evidence.without(left_out)
        held._medians = {radio: told for radio, told in self._medians.items() if radio != left_out}
        return held

    @property
    def beside_s(self) -> float:
        """What a handshake takes beside radio and work: processes that wake, the router, system calls."""
        return quantile_of([told[0] - told[1] for told in self._told()], 0.5)

    @property
    def errors(self) -> list[float]:
        """ln(measured / modelled) of every pair and radio."""
        beside_s = self.beside_s
        return [math.log(measured_s / (modelled_s + beside_s)) for measured_s, modelled_s in self._told()]

    def _told(self) -> list[tuple[float, float]]:
        return [told for of_radio in self._medians.values() for told in of_radio]

    def _medians_of(self, radio: Radio) -> Iterator[tuple[float, float]]:
        for pair, group in self.evidence.groups[radio].items():
            if group.timed:
                modelled = self._timed(pair, radio, self.evidence.measured_work_s[pair])
                yield quantile_of(group.walls_s, 0.5), quantile_of(modelled, 0.5)

    def _carried(self, pair: Pair, radio: Radio) -> list[float]:
        """Modelled times of the radio alone, s."""
        if (radio, pair) not in self._drawn:
            rng, frames = random.Random(f"advise {radio} {pair}"), messages(suite_of(pair))
            self._drawn[radio, pair] = [handshake_seconds(frames, radio, rng) for _ in range(DRAWS)]
        return self._drawn[radio, pair]

    def _timed(self, pair: Pair, radio: Radio, work_s: Sequence[float]) -> list[float]:
        """The same with the hosts' work, without the model's error."""
        rng = random.Random(f"advise work {radio} {pair}")
        return [carried_s + rng.choice(work_s) for carried_s in self._carried(pair, radio)]

    def predict(self, pair: Pair, radio: Radio) -> Prediction:
        """Of a pair whose work is known."""
        beside_s = self.beside_s
        drawn = [time_s + beside_s for time_s in self._timed(pair, radio, self.evidence.work_s[pair])]
        seed = f"advise predict {radio} {pair}"
        return Prediction(drawn, self.errors, deadline_s(suite_of(pair)), seed)


def deadline_s(suite: Suite) -> float:
    """When a handshake of this suite is cut off."""
    return BASE_DEADLINE_S + suite.crypto_allowance_s


class Prediction:
    """Times to a link that are expected, s. One beyond the suite's deadline is no link: it counts as
    infinite."""

    def __init__(self, drawn: Sequence[float], errors: Sequence[float], limit_s: float, seed: str) -> None:
        self._drawn, self._errors, self._seed = drawn, errors, seed
        self.limit_s = limit_s
        rng = random.Random(seed)
        times = [rng.choice(drawn) * math.exp(rng.choice(errors)) for _ in range(_MIXED)]
        self._times = [self._cut(time_s) for time_s in times]

    def _cut(self, time_s: float) -> float:
        return time_s if time_s <= self.limit_s else math.inf

    def at(self, share: float) -> float:
        """Quantile of one handshake's time; infinite where it is cut off."""
        return quantile_of(self._times, share)

    @property
    def one(self) -> Interval:
        """90 % interval of one handshake."""
        return Interval(self.at(0.05), self.at(0.95))

    def of_many(self, share: float, count: int) -> Interval:
        """90 % interval of that quantile of so many handshakes on one radio: they share the model's error."""
        rng = random.Random(f"{self._seed} {share} {count}")
        found = []
        for _ in range(_MIXED // 4):
            factor = math.exp(rng.choice(self._errors))
            found.append(
                quantile_of([self._cut(rng.choice(self._drawn) * factor) for _ in range(count)], share)
            )
        return Interval(quantile_of(found, 0.05), quantile_of(found, 0.95))


def quantile_of(values: Sequence[float], share: float) -> float:
    """`quantile7`, with infinities: between a number and infinity lies infinity."""
    ordered = sorted(values)
    if math.isinf(ordered[math.ceil((len(ordered) - 1) * share)]):
        return math.inf
    found = quantile7(ordered, share)
    assert found is not None
    return found
