"""The noncentral t: how large an effect must be for a test to find it."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from pqevidence.analysis.stats import student_t_quantile

ALPHA = 0.05
POWER = 0.8
_STEPS = 400


@lru_cache(maxsize=256)
def noncentrality(df: int, tests: int, power: float) -> float:
    """Mean of T that passes the two-sided α / tests with probability `power`, df degrees of freedom."""
    critical = student_t_quantile(1.0 - ALPHA / tests / 2.0, df)
    low, high = 0.0, critical + 2.0
    while power_of(high, critical, df) < power:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if power_of(middle, critical, df) < power else (low, middle)
    return (low + high) / 2.0


def power_of(noncentrality: float, critical: float, df: int) -> float:
    """P(T > critical) of the noncentral t, integrated over s = √(χ²/df) by Simpson's rule."""
    normal = NormalDist()
    top = 1.0 + 10.0 / math.sqrt(2.0 * df)
    log_scale = math.log(2.0) + df / 2.0 * math.log(df / 2.0) - math.lgamma(df / 2.0)
    total = 0.0
    for step in range(1, _STEPS):
        s = top * step / _STEPS
        density = math.exp(log_scale + (df - 1) * math.log(s) - df * s * s / 2.0)
        total += (4.0 if step % 2 else 2.0) * density * normal.cdf(noncentrality - critical * s)
    if df == 1:
        total += math.exp(log_scale) * normal.cdf(noncentrality)
    return min(1.0, total * top / _STEPS / 3.0)
