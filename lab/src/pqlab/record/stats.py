"""Order statistics of a record. Nothing of an empty list is a number: callers get None."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def median(values: Sequence[float]) -> float | None:
    """Middle value, or the mean of the two middle ones."""
    if not values:
        return None
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Nearest-rank percentile: a value that was observed, never an interpolation."""
    if not values:
        return None
    ordered = sorted(values)
    return float(ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1])


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean without rounding drift."""
    return math.fsum(values) / len(values) if values else None


def jitter(transits_ns: Iterable[int]) -> list[float]:
    """Running interarrival jitter of RFC 3550 §6.4.1 and A.8: J += (|D| − J) / 16, in the unit of the input.

    `transits_ns` are arrival minus departure in order of arrival; n values give n − 1 estimates.
    """
    estimates: list[float] = []
    current = 0.0
    before: int | None = None
    for transit in transits_ns:
        if before is not None:
            current += (abs(transit - before) - current) / 16
            estimates.append(current)
        before = transit
    return estimates
