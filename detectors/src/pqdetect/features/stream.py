"""Features as windows come: a bounded history, explicit gaps, explicit resets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import FeatureError
from pqdetect.features.scales import FIVE, SCALES, five_window_many, multi_scale_many
from pqdetect.features.window import FEATURE_NAMES, Row, window_features
from pqdetect.feed import WindowInput

HISTORY_WINDOWS: Final = 400
"""Windows that are remembered: 240 s, the input of the time-series transformer."""


class FeatureStream:
    """History of one feed. Windows go in by ascending number; a number that was passed over stays unknown.

    A gap of HISTORY_WINDOWS or more, and `reset`, start the history anew.
    """

    def __init__(self) -> None:
        self._rows: Row = np.full((HISTORY_WINDOWS, len(FEATURE_NAMES)), np.nan, dtype=np.float32)
        self._known: NDArray[np.bool_] = np.zeros(HISTORY_WINDOWS, dtype=np.bool_)
        self._last_k: int | None = None
        self.pushed = 0
        """Windows pushed since the last reset."""
        self.resets = 0
        """How often the history was started anew, the beginning not counted."""

    @property
    def last_k(self) -> int | None:
        """Number of the newest window; None before the first and after a reset."""
        return self._last_k

    @property
    def history_windows(self) -> int:
        """Known windows among the last HISTORY_WINDOWS."""
        return int(self._known.sum())

    def reset(self) -> None:
        """Forget everything: the feed started anew."""
        self._rows[:] = np.nan
        self._known[:] = False
        self._last_k = None
        self.pushed = 0
        self.resets += 1

    def mark(self) -> Callable[[], None]:
        """What brings the history of this moment back, whatever is pushed in between."""
        rows, known = self._rows.copy(), self._known.copy()
        last_k, pushed, resets = self._last_k, self.pushed, self.resets

        def back() -> None:
            self._rows[:], self._known[:] = rows, known
            self._last_k, self.pushed, self.resets = last_k, pushed, resets

        return back

    def push(self, window: WindowInput) -> Row:
        """Take in the next window and return its row. Raises FeatureError for a number that has passed."""
        return self.push_row(window.k, window_features(window))

    def push_row(self, k: int, row: Row) -> Row:
        """The same with a row made elsewhere: (len(FEATURE_NAMES),) float32 of window `k`."""
        if row.shape != (len(FEATURE_NAMES),):
            raise FeatureError(f"row is {row.shape}, not ({len(FEATURE_NAMES)},)")
        if self._last_k is not None:
            step = k - self._last_k
            if step <= 0:
                raise FeatureError(f"window {k} after window {self._last_k}")
            if step >= HISTORY_WINDOWS:
                self.reset()
            else:
                self._advance(step)
        self._rows[-1] = row
        self._known[-1] = True
        self._last_k = k
        self.pushed += 1
        return row

    def _advance(self, step: int) -> None:
        self._rows[:-step] = self._rows[step:].copy()
        self._known[:-step] = self._known[step:].copy()
        self._rows[-step:] = np.nan
        self._known[-step:] = False

    @property
    def latest(self) -> Row:
        """The newest row; raises FeatureError before the first window."""
        if self._last_k is None:
            raise FeatureError("no window has been pushed", hint="push a window first")
        row: Row = self._rows[-1].copy()
        return row

    def multi_scale(self) -> Row:
        """(len(MULTI_SCALE_NAMES),) float32 of the newest window and its history."""
        row: Row = multi_scale_many(self._rows[-SCALES[-1] :])[-1]
        return row

    def five_window(self) -> Row:
        """(len(FIVE_WINDOW_NAMES),) float32: the last five rows, newest first, NaN where unknown."""
        row: Row = five_window_many(self._rows[-FIVE:])[-1]
        return row

    def sequence(self) -> tuple[Row, NDArray[np.bool_]]:
        """Rows (400, len(FEATURE_NAMES)), oldest first, and which of them are known; unknown rows are NaN."""
        return self._rows.copy(), self._known.copy()
