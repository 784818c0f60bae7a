"""The bootstrap-t of a mean of run-level values.

Equal-tailed, after Efron and Tibshirani (An Introduction to the Bootstrap, 1993, ch. 12.5): the studentised
mean of each resample stands in for Student's t, so that skewness enters the interval. BCa was measured and
falls short below 30 runs (docs/COMPARISONS.md). Resamples are drawn once for each (n, count, seed): equal
input gives equal bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter, mul

#: Resamples of one bootstrap, unless a family of many tests asks for finer tails.
RESAMPLES_COUNT = 1999
#: Resamples for each test of a family: the least p-value is then half of Holm's first threshold.
RESAMPLES_PER_TEST_COUNT = 80
#: Below this many distinct values a resample often has no spread at all, and its t no meaning.
MIN_DISTINCT_COUNT = 5

Pick = Callable[[Sequence[float]], tuple[float, ...]]


def resamples_for(tests: int) -> int:
    """Resamples that let the smallest p-value of a family of `tests` reach a claim."""
    return max(RESAMPLES_COUNT, RESAMPLES_PER_TEST_COUNT * tests - 1)


@lru_cache(maxsize=8)
def _picks(n: int, count: int, seed: int) -> tuple[Pick, ...]:
    rng = random.Random(f"bootstrap/{n}/{count}/{seed}")
    return tuple(itemgetter(*(rng.randrange(n) for _ in range(n))) for _ in range(count))


def studentised(values: Sequence[float], seed: int, tests: int = 1) -> list[float]:
    """Sorted t* of the mean over resamples of `values` (n ≥ 2); a resample without spread is infinite."""
    n = len(values)
    centre = math.fsum(values) / n
    shifted = [value - centre for value in values]
    found = []
    for pick in _picks(n, resamples_for(tests), seed):
        drawn = pick(shifted)
        mean = sum(drawn) / n
        found.append(_t(mean, sum(map(mul, drawn, drawn)) - n * mean * mean, n))
    found.sort()
    return found


def _t(mean: float, squares: float, n: int) -> float:
    # sums of squares that cancel leave dust of the size of the rounding error, which is no spread
    if squares <= 1e-12 * n * mean * mean or squares <= 0.0:
        return 0.0 if mean == 0.0 else math.copysign(math.inf, mean)
    return mean / math.sqrt(squares / (n - 1) / n)


def bounds(values: Sequence[float], ordered: Sequence[float], level: float) -> tuple[float, float]:
    """Equal-tailed interval of the mean of `values` from its sorted t*."""
    n = len(values)
    centre = math.fsum(values) / n
    error = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (n - 1) / n)
    tail = (1.0 - level) / 2.0
    rank = max(1, math.floor(tail * (len(ordered) + 1)))
    return centre - ordered[-rank] * error, centre - ordered[rank - 1] * error


def p_value(t: float, ordered: Sequence[float]) -> float:
    """Two-sided p of "the mean is 0", the interval's own inversion; never below 2 / (resamples + 1)."""
    above = sum(1 for value in ordered if value >= t)
    below = sum(1 for value in ordered if value <= t)
    return min(1.0, 2.0 * (min(above, below) + 1) / (len(ordered) + 1))
