"""One paired effect from run-level differences: mean with interval and p, a robust value, outliers named.

In scope: which interval at which n. Not in scope: what is paired (conditions.py), what may be claimed
(claims.py). A difference is a log ratio, or points where a ratio has no meaning; docs/STATISTICS.md holds the
measured coverage that chose the methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pqlab.analysis import bootstrap
from pqlab.analysis.stats import (
    BOOTSTRAP_RUNS_COUNT,
    INSUFFICIENT,
    MIN_RUNS_COUNT,
    mad,
    mean,
    median,
    sd,
    student_t_quantile,
    student_t_two_sided,
)

#: An outlier lies beyond this many scaled MADs (Iglewicz and Hoaglin 1993: 3.5); it is named and kept.
OUTLIER_MADS = 3.5
MAD_SCALE = 1.4826
LEVEL = 0.95
NO_SPREAD = "no spread: every difference is the same"
ONE_SIDED = "faults on one side: no interval of a mean holds"
#: Pairs that are outliers of their suite: from this share of all, and this many, the mean has no interval.
ONE_SIDED_SHARE, ONE_SIDED_COUNT = 0.03, 2


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
    centre, spread = math.fsum(differences) / n, sd(differences) or 0.0
    if spread <= 1e-12 * abs(centre) or spread == 0.0:
        return Estimate(*found, None, None, None, NO_SPREAD, outliers)
    t = centre / (spread / math.sqrt(n))
    p = student_t_two_sided(t, n - 1)
    if n >= BOOTSTRAP_RUNS_COUNT and len(set(differences)) >= bootstrap.MIN_DISTINCT_COUNT:
        ordered = bootstrap.studentised(differences, seed, tests)
        low, high = bootstrap.bounds(differences, ordered, level)
        if math.isfinite(low) and math.isfinite(high):
            # so far out in the tails the bootstrap alone is too eager (docs/STATISTICS.md): both must agree
            p = max(p, bootstrap.p_value(t, ordered))
            return Estimate(*found, low, high, p, "bootstrap-t", outliers, spread)
    half = student_t_quantile(0.5 + level / 2.0, n - 1) * spread / math.sqrt(n)
    return Estimate(*found, centre - half, centre + half, p, "Student t", outliers, spread)


def without_interval(result: Estimate) -> Estimate:
    """The same values with no inference: what struck one arm alone is no noise (docs/STATISTICS.md)."""
    return replace(result, low=None, high=None, p_value=None, method=ONE_SIDED)


def one_sided(groups: Iterable[Sequence[float]]) -> bool:
    """Do outliers of the groups (a suite each) lie on one side, more than chance and noise put there?

    Residuals are about the median of their group; the scale is that of all, so that a group of three counts.
    """
    residuals = []
    for group in groups:
        centre = median(group)
        if centre is not None and len(group) >= MIN_RUNS_COUNT:
            residuals += [value - centre for value in group]
    scale = median([abs(r) for r in residuals if r != 0.0])
    if scale is None:
        return False
    limit = OUTLIER_MADS * MAD_SCALE * scale
    high, low = (sum(1 for r in residuals if sign * r > limit) for sign in (1.0, -1.0))
    most = max(high, low)
    return most >= max(ONE_SIDED_COUNT, ONE_SIDED_SHARE * len(residuals)) and most > 3 * min(high, low)


def hodges_lehmann(differences: Sequence[float]) -> float | None:
    """Median of all averages of two differences, each with itself too (Hodges and Lehmann 1963)."""
    return median([(a + b) / 2.0 for i, a in enumerate(differences) for b in differences[i:]])


def outlier_indices(differences: Sequence[float]) -> tuple[int, ...]:
    """Differences beyond OUTLIER_MADS scaled MADs of their median; none where the MAD is 0 or n < 3."""
    spread, centre = mad(differences), median(differences)
    if spread is None or centre is None or spread == 0.0 or len(differences) < MIN_RUNS_COUNT:
        return ()
    limit = OUTLIER_MADS * MAD_SCALE * spread
    return tuple(i for i, value in enumerate(differences) if abs(value - centre) > limit)
