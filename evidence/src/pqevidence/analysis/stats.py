"""Descriptive and run-level statistics, in plain Python.

In scope: order statistics, spread, Student-t and bootstrap-t intervals on log values, Bonferroni levels.
Not in scope: models, p-values of raw handshakes. The unit of inference is the cell (one run), so callers
pass one number a cell; docs/STATISTICS.md says which rule applies when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pqbase.stats import quantile7
from pqevidence.analysis import bootstrap
from pqevidence.limits import MIN_RUNS_COUNT as MIN_RUNS_COUNT

#: From this many runs on, the bootstrap-t replaces Student's t.
BOOTSTRAP_RUNS_COUNT = 10

INSUFFICIENT = "insufficient"
#: An outlier lies beyond this many scaled MADs (Iglewicz and Hoaglin 1993: 3.5); it is named and kept.
OUTLIER_MADS = 3.5
MAD_SCALE = 1.4826


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval of a geometric mean (or of a ratio), back on the natural scale."""

    estimate: float
    low: float
    high: float
    level: float
    n: int
    method: str


def median(values: Sequence[float]) -> float | None:
    """Middle order statistic; None without values."""
    return quantile7(values, 0.5)


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None without values."""
    return math.fsum(values) / len(values) if values else None


def sd(values: Sequence[float]) -> float | None:
    """Sample standard deviation (divisor n - 1); None below two values."""
    if len(values) < 2:
        return None
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def mad(values: Sequence[float]) -> float | None:
    """Median absolute deviation from the median, unscaled; None without values."""
    centre = median(values)
    return None if centre is None else median([abs(v - centre) for v in values])


def outlier_indices(differences: Sequence[float]) -> tuple[int, ...]:
    """Differences beyond OUTLIER_MADS scaled MADs of their median; none where the MAD is 0 or n < 3."""
    spread, centre = mad(differences), median(differences)
    if spread is None or centre is None or spread == 0.0 or len(differences) < MIN_RUNS_COUNT:
        return ()
    limit = OUTLIER_MADS * MAD_SCALE * spread
    return tuple(i for i, value in enumerate(differences) if abs(value - centre) > limit)


@lru_cache(maxsize=256)
def student_t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t with ``df`` degrees of freedom, for 0.5 <= p < 1 (bisection on the CDF)."""
    if not 0.5 <= p < 1.0 or df < 1:
        raise ValueError(f"student_t_quantile needs 0.5 <= p < 1 and df >= 1, got p={p}, df={df}")
    low, high = 0.0, 2.0
    while _student_t_cdf(high, df) < p:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if _student_t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def student_t_two_sided(t: float, df: float) -> float:
    """Two-sided p-value of a t statistic; df need not be whole (Welch)."""
    return _regularised_beta(df / (df + t * t), df / 2.0, 0.5)


def _student_t_cdf(t: float, df: int) -> float:
    x = df / (df + t * t)
    return 1.0 - 0.5 * _regularised_beta(x, df / 2.0, 0.5)


def _regularised_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function by its continued fraction (Lentz)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _regularised_beta(1.0 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return math.exp(log_front) * fraction / a


@dataclass(frozen=True)
class MeanInterval:
    """A two-sided interval of a mean and the two-sided p of "the mean is 0"."""

    low: float
    high: float
    p_value: float
    method: str


def mean_interval(values: Sequence[float], *, level: float, seed: int, tests: int = 1) -> MeanInterval | None:
    """Of the mean of n ≥ 3 values; None where none differs from another.

    Student's t below :data:`BOOTSTRAP_RUNS_COUNT` values, the bootstrap-t from there on. Beside an outlier
    the bootstrap is too short at one end: there each end is the one of the two that reaches further. p is
    always the larger of the two: far out in its tails the bootstrap is too eager (docs/COMPARISONS.md).
    tests: size of the family that p is judged in.
    """
    n = len(values)
    centre, spread = math.fsum(values) / n, sd(values) or 0.0
    if spread <= 1e-12 * abs(centre) or spread == 0.0:
        return None
    error = spread / math.sqrt(n)
    half, t = student_t_quantile(0.5 + level / 2.0, n - 1) * error, centre / error
    found = MeanInterval(centre - half, centre + half, student_t_two_sided(t, n - 1), "Student t")
    if n < BOOTSTRAP_RUNS_COUNT or len(set(values)) < bootstrap.MIN_DISTINCT_COUNT:
        return found
    ordered = bootstrap.studentised(values, seed, tests)
    low, high = bootstrap.bounds(values, ordered, level)
    if not (math.isfinite(low) and math.isfinite(high)):
        return found
    p_value = max(found.p_value, bootstrap.p_value(t, ordered))
    if outlier_indices(values):
        low, high = min(low, found.low), max(high, found.high)
    return MeanInterval(low, high, p_value, "bootstrap-t")


def log_interval(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> Interval | None:
    """Interval of the geometric mean of positive run-level values: :func:`mean_interval` of the logarithms;
    None ("insufficient") below :data:`MIN_RUNS_COUNT` runs."""
    n = len(values)
    if n < MIN_RUNS_COUNT:
        return None
    if min(values) <= 0.0:
        raise ValueError("a log interval needs positive values")
    logs = [math.log(v) for v in values]
    centre = math.exp(math.fsum(logs) / n)
    found = mean_interval(logs, level=level, seed=seed, tests=round(0.05 / (1.0 - level)))
    if found is None:
        return Interval(centre, centre, centre, level, n, "Student t")
    return Interval(centre, math.exp(found.low), math.exp(found.high), level, n, found.method)


def simultaneous_level(family_size: int, level: float = 0.95) -> float:
    """Per-comparison level that keeps ``family_size`` intervals together at ``level`` (Bonferroni)."""
    if family_size < 1:
        raise ValueError("a family of comparisons has at least one member")
    return 1.0 - (1.0 - level) / family_size
