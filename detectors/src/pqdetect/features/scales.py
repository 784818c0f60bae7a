"""Looking back over rows: the last five windows, and means and peaks over 5, 20 and 100 windows.

Row k uses rows ≤ k only. What lies before the first row, before a reset, or in a window that never came is
unknown: it counts neither in a mean nor in a peak. The sums are taken in one fixed order, so that a stream
and a batch agree to the last bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import FeatureError
from pqdetect.features.window import FEATURE_NAMES, Row

SCALES: Final = (5, 20, 100)
FIVE: Final = 5
PEAK_NAMES: Final = (
    "rx_datagrams", "bad_header", "unknown_index", "auth_failed", "replay", "old_epoch", "missing_share",
    "refused", "queue_full", "refused_bins", "quiet_bins", "if_excess_packets", "udp_no_ports",
)  # fmt: skip
"""Features whose greatest value over a scale is kept beside the mean."""
RUN_NAMES: Final = ("refused", "missing", "authentic")
"""Features for which the share of windows that hold any is kept: one burst differs from a steady trickle."""

FIVE_WINDOW_NAMES: Final = tuple(f"{name}_t{age}" for age in range(FIVE) for name in FEATURE_NAMES)
"""The last five rows, newest first (`_t0`)."""
MULTI_SCALE_NAMES: Final = (
    *FEATURE_NAMES,
    *(f"{name}_mean{scale}" for scale in SCALES for name in FEATURE_NAMES),
    *(f"{name}_peak{scale}" for scale in SCALES for name in PEAK_NAMES),
    *(f"{name}_run{scale}" for scale in SCALES for name in RUN_NAMES),
    *(f"known{scale}" for scale in SCALES),
)
"""The newest row, means, peaks and runs over each scale, and how many windows of each scale are known."""

_PEAK: Final = [FEATURE_NAMES.index(name) for name in PEAK_NAMES]
_RUN: Final = [FEATURE_NAMES.index(name) for name in RUN_NAMES]
_Floats = NDArray[np.float64]


def _shifted(values: _Floats, by: int, fill: float) -> _Floats:
    """Row k becomes row k - by; what has no row becomes `fill`."""
    moved = np.full_like(values, fill)
    if by < len(values):
        moved[by:] = values[: len(values) - by]
    return moved


def _over_scales(values: _Floats, fill: float, join: np.ufunc) -> list[_Floats]:
    """`join` of the last 5, 20 and 100 rows, each made from the shorter one in a fixed order."""
    found: list[_Floats] = []
    base, step = values, 1
    for scale in SCALES:
        total = base
        for part in range(1, scale // step):
            total = join(total, _shifted(base, part * step, fill))
        found.append(total)
        base, step = total, scale
    return found


def multi_scale_many(rows: Row) -> Row:
    """(K, len(MULTI_SCALE_NAMES)) float32 from rows (K, len(FEATURE_NAMES)) of consecutive windows.

    A window that never came is a row of NaN. Raises FeatureError for other shapes.
    """
    _check(rows)
    wide = rows.astype(np.float64)
    known = np.isfinite(wide)
    came: NDArray[np.bool_] = np.any(known, axis=1, keepdims=True)
    sums = _over_scales(np.where(known, wide, 0.0), 0.0, np.add)
    counts = _over_scales(known.astype(np.float64), 0.0, np.add)
    peaks = _over_scales(np.where(known, wide, -np.inf)[:, _PEAK], -np.inf, np.maximum)
    runs = _over_scales((np.nan_to_num(wide[:, _RUN]) > 0).astype(np.float64), 0.0, np.add)
    windows = _over_scales(came.astype(np.float64), 0.0, np.add)
    means = [
        np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
        for total, count in zip(sums, counts, strict=True)
    ]
    peaked = [np.where(np.isfinite(peak), peak, np.nan) for peak in peaks]
    shares = [run / np.maximum(count, 1.0) for run, count in zip(runs, windows, strict=True)]
    return np.concatenate([wide, *means, *peaked, *shares, *windows], axis=1).astype(np.float32)


def five_window_many(rows: Row) -> Row:
    """(K, 5 × len(FEATURE_NAMES)) float32: each row with the four before it, newest first; NaN where there is
    none. Raises FeatureError for other shapes."""
    _check(rows)
    wide = rows.astype(np.float64)
    return np.concatenate([_shifted(wide, age, np.nan) for age in range(FIVE)], axis=1).astype(np.float32)


def _check(rows: Row) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(FEATURE_NAMES):
        raise FeatureError(f"rows are {rows.shape}, not (K, {len(FEATURE_NAMES)})")
