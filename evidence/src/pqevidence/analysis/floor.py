"""The noise floor: how large the very statistic that is claimed becomes where nothing differs.

A claim is about a mean of N differences. Its floor holds 99 % of the same means of N A/A differences
of the same class of cost, so it shrinks with √N as the claim's own error does. A shift that A/A pairs show by
themselves does not average out and is added whole. docs/COMPARISONS.md has the reasons.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from pqevidence.analysis.noncentral import POWER, noncentrality
from pqevidence.analysis.stats import mean, sd, student_t_quantile
from pqevidence.limits import MIN_FLOOR_PAIRS_COUNT as MIN_FLOOR_PAIRS_COUNT

MEASURED, OTHER_COST, ASSUMED = "measured", "measured at another cost", "assumed"
#: a shift of A/A pairs counts as one beyond this quantile of Student's t (two-sided 1 %)
_SHIFT = 0.995
#: of the absolute mean, 99 %: two families of claims together then stay below 5 % (docs/COMPARISONS.md)
_COVERED = 0.995


@dataclass(frozen=True)
class Floor:
    """Least absolute effect that may be claimed, on the scale of the differences; `pairs` A/A pairs gave it.
    error: standard deviation of the claimed statistic where nothing differs; None where it is assumed."""

    value: float
    pairs: int
    method: str
    error: float | None = None


def cost_class(value: float) -> int:
    """The decade of a positive value: cells of 0.3 ms and of 300 ms share no noise. 0 for what has none."""
    return math.floor(math.log10(value)) if value > 0.0 else 0


class Null:
    """A/A differences of one metric, by class of cost."""

    def __init__(self, samples: Iterable[tuple[float, int]], assumed: float) -> None:
        """samples: (difference, class of cost); assumed: the floor where too few were measured."""
        self._assumed = assumed
        self._classes: dict[int, list[float]] = defaultdict(list)
        for value, cost in samples:
            self._classes[cost].append(value)

    @property
    def pairs(self) -> int:
        """A/A pairs of all classes."""
        return sum(map(len, self._classes.values()))

    def floor(self, costs: Sequence[int]) -> Floor:
        """The floor of a mean over differences of these classes of cost, one entry a difference."""
        if self.pairs < MIN_FLOOR_PAIRS_COUNT or not costs:
            return Floor(self._assumed, self.pairs, ASSUMED)
        known = {c: v for c, v in self._classes.items() if len(v) >= MIN_FLOOR_PAIRS_COUNT}
        # a class without pairs of its own takes the widest of the others
        worst = max(known.values(), key=_square) if known else [v for c in self._classes.values() for v in c]
        used = {cost: known.get(cost, worst) for cost in costs}
        counted = Counter(costs)
        error = math.sqrt(math.fsum(n * _square(used[cost]) for cost, n in counted.items())) / len(costs)
        shift = math.fsum(n * _shift(used[cost]) for cost, n in counted.items()) / len(costs)
        pairs = min(map(len, used.values()))
        method = MEASURED if all(cost in known for cost in counted) else OTHER_COST
        return Floor(student_t_quantile(_COVERED, pairs) * error + shift, pairs, method, error)


def of_spread(sd: float, n: int) -> Floor:
    """The floor of a mean of `n` differences that a plan may expect from A/A pairs of this spread."""
    error = sd / math.sqrt(n)
    return Floor(NormalDist().inv_cdf(_COVERED) * error, 0, MEASURED, error)


def visible(
    floor: Floor, n: int, spread: float | None, tests: int, error: float | None = None
) -> float | None:
    """Least true effect that is claimed in 80 % of such campaigns; None without a spread to tell from.

    n units with standard deviation `spread` (or `error` of their mean, where a plan knows no more), at Holm's
    first step among `tests`, beyond the floor.
    """
    own = None if spread is None else spread / math.sqrt(n)
    errors = [e for e in (own, error, floor.error) if e is not None]
    if not errors or n < 2:
        return None
    widest = max(errors)
    if floor.method == ASSUMED:
        # the whole interval must lie beyond it
        beyond = floor.value + noncentrality(n - 1, 1, POWER) * widest
    else:
        beyond = floor.value + NormalDist().inv_cdf(POWER) * widest
    return max(beyond, noncentrality(n - 1, tests, POWER) * widest)


def _square(values: Sequence[float]) -> float:
    """Mean square about zero: that nothing differs is known, not estimated."""
    return math.fsum(v * v for v in values) / len(values)


def _shift(values: Sequence[float]) -> float:
    """What A/A pairs differ by on average, where that is more than chance; else 0."""
    middle, spread = mean(values) or 0.0, sd(values) or 0.0
    limit = student_t_quantile(_SHIFT, len(values) - 1) * spread / math.sqrt(len(values))
    return abs(middle) if abs(middle) > limit else 0.0
