"""The endpoint's bins as they fill: counts by field, added by moment or by bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pqdetect.feed import FIELDS
from pqdetect.simulate.moments import Floats, add_to, bins_of

_AT = {name: place for place, name in enumerate(FIELDS)}


class Tally:
    """(bins, len(FIELDS)) of one flight."""

    def __init__(self, bin_count: int) -> None:
        # By field first: every addition then runs over memory in a row.
        self._counts = np.zeros((len(FIELDS), bin_count), dtype=np.int64)

    def __len__(self) -> int:
        return int(self._counts.shape[1])

    def field(self, name: str) -> NDArray[np.int64]:
        """(bins,), a view to add to."""
        view: NDArray[np.int64] = self._counts[_AT[name]]
        return view

    def datagrams(self, moments: Floats, sizes: NDArray[np.int64]) -> None:
        """Datagrams that the socket delivered, whatever they are."""
        places = bins_of(moments, len(self))
        add_to(self.field("rx_datagrams"), places)
        add_to(self.field("rx_bytes"), places, sizes)
        add_to(self.field("rx_bytes_sq"), places, sizes * sizes)

    def mark(self, name: str, moments: Floats, weights: NDArray[np.int64] | None = None) -> None:
        """One more of a field at each moment, or `weights`."""
        add_to(self.field(name), bins_of(moments, len(self)), weights)

    def refused(self, name: str, by_bin: NDArray[np.int64], size_bytes: float) -> None:
        """Datagrams of one size that were dropped as `name`, by bin."""
        self.field(name)[:] += by_bin
        self.field("rx_datagrams")[:] += by_bin
        self.field("rx_bytes")[:] += np.rint(by_bin * size_bytes).astype(np.int64)
        self.field("rx_bytes_sq")[:] += np.rint(by_bin * size_bytes**2).astype(np.int64)

    def windows(self, window_bins: int) -> NDArray[np.int32]:
        """(windows, bins of a window, len(FIELDS)); int32 holds any bin of 20 ms but the squares of a flood
        of full-sized datagrams above 50,000 a second, which no simulated host takes."""
        whole = self._counts[:, : len(self) // window_bins * window_bins]
        shaped = whole.reshape(len(FIELDS), -1, window_bins).transpose(1, 2, 0)
        return np.ascontiguousarray(np.minimum(shaped, np.iinfo(np.int32).max)).astype(np.int32)
