"""Order statistics of a record. Nothing of an empty list is a number: callers get None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import sub

from pqbase.stats import TOO_FEW, least_count, quantile7


def median(values: Sequence[float]) -> float | None:
    """Middle value, or the mean of the two middle ones."""
    return quantile7(values, 0.5)


def few(values: Sequence[float], share: float, none: str) -> str:
    """Why a tail is absent: `none` where there is no value at all, else that they are too few."""
    return f"{TOO_FEW}: {len(values)} of {least_count(share)}" if values else none


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean without rounding drift."""
    return math.fsum(values) / len(values) if values else None


def jitter(transits_ns: Sequence[int]) -> list[float]:
    """Running interarrival jitter of RFC 3550 §6.4.1 and A.8: J += (|D| − J) / 16, in the unit of the input.

    `transits_ns` are arrival minus departure in order of arrival; n values give n − 1 estimates.
    """
    estimates: list[float] = []
    current = 0.0
    for apart in map(abs, map(sub, transits_ns[1:], transits_ns)):
        current += (apart - current) / 16
        estimates.append(current)
    return estimates
