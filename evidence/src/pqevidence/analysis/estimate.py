"""One paired effect from run-level differences: mean with interval and p, a robust value, outliers named.

In scope: which interval at which n. Not in scope: what is paired (conditions.py), what may be claimed
(claims.py). A difference is a log ratio, or points where a ratio has no meaning; docs/COMPARISONS.md holds
the measured coverage that chose the methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pqevidence.analysis.stats import (
    INSUFFICIENT,
    MAD_SCALE,
    MIN_RUNS_COUNT,
    OUTLIER_MADS,
    mean,
    mean_interval,
    median,
    outlier_indices,
    sd,
)

LEVEL = 0.95
NO_SPREAD = "no spread: every difference is the same"
ONE_SIDED = "faults on one side: no interval of a mean holds"
#: Pairs that are outliers of their suite: from this share of all, and this many, the mean has no interval.
ONE_SIDED_SHARE, ONE_SIDED_COUNT = 0.03, 2
#: Outliers that move a mean by this share of its interval's half width leave it without one.
MOVED_SHARE, FEW_COUNT = 0.5, 5


@dataclass(frozen=True)
class Estimate:
    """The effect in a set of differences; low, high and p_value are None where no inference is made.

    hodges_lehmann: median of the pairwise (Walsh) averages; outliers: indices into the differences; spread:
    their standard deviation.
    """

    n: int
    mean: float | None
    hodges_lehmann: float | None
    low: float | None
    high: float | None
    p_value: float | None
    method: str
    outliers: tuple[int, ...]
    spread: float | None = None


def estimate(
    differences: Sequence[float],
    *,
    seed: int,
    tests: int = 1,
    level: float = LEVEL,
) -> Estimate:
    """Effect of paired differences, one a run; `tests` is the size of the family it will be judged in."""
    n = len(differences)
    found = (n, mean(differences), hodges_lehmann(differences))
    outliers = outlier_indices(differences)
    if n < MIN_RUNS_COUNT:
        return Estimate(*found, None, None, None, INSUFFICIENT, outliers)
    interval = mean_interval(differences, level=level, seed=seed, tests=tests)
    if interval is None:
        return Estimate(*found, None, None, None, NO_SPREAD, outliers)
    return Estimate(
        *found, interval.low, interval.high, interval.p_value, interval.method, outliers, sd(differences)
    )


def without_interval(result: Estimate) -> Estimate:
    """The same values with no inference: what struck one arm alone is no noise (docs/COMPARISONS.md)."""
    return replace(result, low=None, high=None, p_value=None, method=ONE_SIDED)


def one_sided(groups: Iterable[Sequence[float]]) -> bool:
    """Do outliers of the groups (a suite each) lie on one side, more than chance and noise put there?"""
    residuals, limit = _residuals(groups)
    high, low = (sum(1 for r in residuals if sign * r > limit) for sign in (1.0, -1.0))
    # two faults of three pairs make the third look like an outlier of the other side
    return max(high, low) >= max(ONE_SIDED_COUNT, ONE_SIDED_SHARE * len(residuals), 2 * min(high, low) + 2)


def hangs_on_outliers(groups: Iterable[Sequence[float]], result: Estimate) -> bool:
    """Do outliers of the groups move the mean of all by more than half of what its interval allows for?

    In a group of three or four, two faults make the others look like outliers of the other side: there all
    count alike.
    """
    if result.low is None or result.high is None:
        return False
    members = [list(group) for group in groups]
    residuals, limit = _residuals(members)
    wild = [r for r in residuals if abs(r) > limit]
    few = min(map(len, members)) < FEW_COUNT
    moved = math.fsum(map(abs, wild) if few else wild) / max(len(residuals), 1)
    return abs(moved) > MOVED_SHARE * (result.high - result.low) / 2.0


def _residuals(groups: Iterable[Sequence[float]]) -> tuple[list[float], float]:
    """(residuals about the median of their group, what an outlier lies beyond). The scale is that of all, so
    that a group of three counts; no residual lies beyond where none has a scale."""
    residuals = []
    for group in groups:
        centre = median(group)
        if centre is not None and len(group) >= MIN_RUNS_COUNT:
            residuals += [value - centre for value in group]
    scale = median([abs(r) for r in residuals if r != 0.0])
    return residuals, math.inf if scale is None else OUTLIER_MADS * MAD_SCALE * scale


def hodges_lehmann(differences: Sequence[float]) -> float | None:
    """Median of all averages of two differences, each with itself too (Hodges and Lehmann 1963)."""
    return median([(a + b) / 2.0 for i, a in enumerate(differences) for b in differences[i:]])
