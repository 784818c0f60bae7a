"""Medians and paired ratios of the bench; quantiles are those of pqbase.stats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None


def paired_ratio(mine: Sequence[float], other: Sequence[float]) -> float | None:
    """Median of the ratios within each round; None when a round is missing on one side or is zero."""
    if not mine or len(mine) != len(other) or min(other) <= 0:
        return None
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def rounded(value: float | None, digits: int = 3) -> float | None:
    """Rounded for people; None stays None."""
    return None if value is None else round(value, digits)
