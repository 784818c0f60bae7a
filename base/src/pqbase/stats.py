"""The quantile of every printed figure: linear interpolation between order statistics.

Hyndman and Fan (The American Statistician 50, 1996) call it type 7. It is the default of numpy, pandas and R,
so whoever works a figure out again from the raw values gets the same number. docs/STATISTICS.md says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

#: What stands in place of a tail that too few values carry.
TOO_FEW: Final = "n too small"
_LEAST_MEDIAN_COUNT: Final = 20
_Z95: Final = 1.959964


def quantile7(values: Sequence[float], share: float) -> float | None:
    """The value at `share`, 0 to 1, of the sorted values; None of nothing. Raises ValueError beyond 1."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, got {share}")
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    low, part = float(ordered[below]), place - below
    if part == 0.0:
        return low
    high = float(ordered[below + 1])
    # half way as the median is written everywhere, to the last bit
    return (low + high) / 2.0 if part == 0.5 else low + (high - low) * part


def least_count(share: float) -> int:
    """How many values a tail needs before it is printed: one expected beyond it, so 20 for P95, 100 for P99.

    The median, the quartiles and all between 0.1 and 0.9 need one value.
    """
    beyond = min(share, 1.0 - share)
    return 1 if beyond > 0.1 + 1e-9 or beyond <= 0.0 else math.ceil(round(1.0 / beyond, 6))


def tail(values: Sequence[float], share: float) -> float | None:
    """`quantile7` where enough values carry it; None otherwise, for the reason `TOO_FEW`."""
    return quantile7(values, share) if len(values) >= least_count(share) else None


def median_interval(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """95 % interval of the median, free of a distribution: order statistics, binomial by its normal
    approximation (Hahn and Meeker, Statistical Intervals, 5.2). Nones below 20 values."""
    n = len(values)
    if n < _LEAST_MEDIAN_COUNT:
        return None, None
    ordered = sorted(values)
    reach = _Z95 * math.sqrt(n) / 2.0
    low, high = math.floor(n / 2.0 - reach), math.ceil(n / 2.0 + reach)
    return float(ordered[max(low, 0)]), float(ordered[min(high, n - 1)])
