"""Confidence bounds of proportions and of event rates, with numpy and the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Callable

Z_95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float] | None:
    """Wilson's score interval of a proportion; None without a trial."""
    if trials == 0:
        return None
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    return max(centre - half, 0.0), min(centre + half, 1.0)


def poisson_upper(count: int, confidence: float = 0.95) -> float:
    """The largest mean at which ``count`` events or fewer still have probability 1 − confidence (exact)."""
    high = count + 10.0 + 10.0 * math.sqrt(count + 1.0)
    return _falling(lambda mean: poisson_cdf(count, mean), 1 - confidence, float(count), high)


def poisson_lower(count: int, confidence: float = 0.95) -> float:
    """The smallest mean at which ``count`` events or more still have probability 1 − confidence (exact)."""
    if count == 0:
        return 0.0
    return _falling(lambda mean: poisson_cdf(count - 1, mean), confidence, 0.0, float(count))


def poisson_cdf(count: int, mean: float) -> float:
    """P(X ≤ count) of a Poisson variable, summed from its largest term down."""
    if mean <= 0:
        return 1.0
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(count + 1)]
    top = max(logs)
    return min(math.exp(top) * math.fsum(math.exp(value - top) for value in logs), 1.0)


def _falling(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a falling function crosses ``target``, by bisection."""
    for _ in range(100):
        middle = (low + high) / 2
        if function(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
