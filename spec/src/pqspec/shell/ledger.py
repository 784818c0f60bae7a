"""Ledger: one row for every data datagram at this end, kept as packed arrays and rendered as CSV on demand.

Loss, reorder, duplicates and one-way delay are later computed by joining both ends on (epoch, sequence).
A row costs the data thread six array appends; nothing is formatted while traffic runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

HEADER: Final = "direction,epoch,sequence,size_bytes,t_in_ns,t_out_ns,window"
MAX_ROWS_PER_DIRECTION: Final = 8_000_000
"""About 300 MB; a cell that reaches it keeps counting but says that its ledger is cut."""


class LedgerSide:
    """Rows of one direction. Appended to by one thread, read by others at any time."""

    __slots__ = ("_epoch", "_rows", "_sequence", "_size", "_t_in", "_t_out", "_window", "cut", "direction")

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.cut = 0
        self._rows = 0
        self._epoch = array("I")
        self._sequence = array("Q")
        self._size = array("I")
        self._t_in = array("Q")
        self._t_out = array("Q")
        self._window = array("H")

    def __len__(self) -> int:
        return self._rows

    def add(
        self, epoch: int, sequence: int, size_bytes: int, t_in_ns: int, t_out_ns: int, window: int
    ) -> None:
        """Append one row; `window` is a place in the cell's list of window names, counted from 1 (0: none
        yet)."""
        if self._rows >= MAX_ROWS_PER_DIRECTION:
            self.cut += 1
            return
        self._epoch.append(epoch)
        self._sequence.append(sequence)
        self._size.append(size_bytes)
        self._t_in.append(t_in_ns)
        self._t_out.append(t_out_ns)
        self._window.append(window)
        self._rows += 1  # last: a reader never sees half a row

    def render(self, names: Sequence[str], start: int, stop: int) -> Iterator[str]:
        """CSV lines of rows [start, stop); a row from before the first window carries the first window's
        name."""
        first = names[0] if names else ""
        for row in range(start, min(stop, self._rows)):
            place = self._window[row]
            yield (
                f"{self.direction},{self._epoch[row]},{self._sequence[row]},{self._size[row]},"
                f"{self._t_in[row]},{self._t_out[row]},{names[place - 1] if place else first}"
            )


class Ledger:
    """Both directions of one cell: sent rows first, then received rows."""

    def __init__(self) -> None:
        self.tx = LedgerSide("tx")
        self.rx = LedgerSide("rx")

    @property
    def cut(self) -> int:
        """Rows over the limit: counted, not kept."""
        return self.tx.cut + self.rx.cut

    def line_count(self) -> int:
        """Lines including the header."""
        return 1 + len(self.tx) + len(self.rx)

    def lines(self, names: Sequence[str], since: int, limit: int) -> list[str]:
        """CSV lines [since, since + limit), header as line 0. Stable once the cell has stopped."""
        out: list[str] = []
        if since == 0 and limit > 0:
            out.append(HEADER)
        start = max(0, since - 1)
        stop = max(0, since + limit - 1)
        sent = len(self.tx)
        out.extend(self.tx.render(names, start, min(stop, sent)))
        if stop > sent:
            out.extend(self.rx.render(names, max(0, start - sent), stop - sent))
        return out
