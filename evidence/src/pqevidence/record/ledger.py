"""The ledger: one row a data datagram at each end, and the join of both ends on (epoch, sequence).

Columns of integers are kept in `array('q')`, not in row objects: a 72-suite campaign has 2.5 million rows.
"""

from __future__ import annotations

import csv
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from pqtunnel.blackout import EPOCH_SHIFT

HEADER = ["direction", "epoch", "sequence", "size_bytes", "t_in_ns", "t_out_ns", "window"]
BOUND = 1 << 62
"""No time (until 2116), size or sequence comes near it; what two numbers below differ by fits a column."""


class LedgerError(ValueError):
    """A ledger file that is not what the format says; the message names the line."""


@dataclass
class Column:
    """Rows of one direction in file order; `key` is epoch and sequence as one integer (pqtunnel.blackout)."""

    key: list[int] = field(default_factory=list)
    size_bytes: array[int] = field(default_factory=lambda: array("q"))
    t_in_ns: array[int] = field(default_factory=lambda: array("q"))
    t_out_ns: array[int] = field(default_factory=lambda: array("q"))
    window: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.key)

    def count_by_window(self) -> dict[str, int]:
        """Rows a window."""
        counts: dict[str, int] = {}
        for name in self.window:
            counts[name] = counts.get(name, 0) + 1
        return counts

    def bytes_by_window(self) -> dict[str, int]:
        """Sealed bytes a window."""
        sizes: dict[str, int] = {}
        for name, size in zip(self.window, self.size_bytes, strict=True):
            sizes[name] = sizes.get(name, 0) + size
        return sizes


@dataclass
class Ledger:
    """Both directions at one end."""

    tx: Column = field(default_factory=Column)
    rx: Column = field(default_factory=Column)


@dataclass
class Joined:
    """One direction of one window: sender's rows against the receiver's.

    latency_ns: plaintext in at the sender's kernel → plaintext handed over at the receiver, in arrival order.
    transit_ns: plaintext in at the sender's kernel → sealed datagram in at the receiver's kernel. The end of
    the send call is no departure: on one machine the receiver's kernel often has the datagram before that.
    """

    sent: int = 0
    lost: int = 0
    reordered: int = 0
    resized: int = 0
    sealed_bytes: int = 0
    delivered_bytes: int = 0
    latency_ns: array[int] = field(default_factory=lambda: array("q"))
    transit_ns: array[int] = field(default_factory=lambda: array("q"))
    first_in_ns: int | None = None
    last_in_ns: int | None = None


@dataclass
class Join:
    """One direction of a cell: per window of the sender, and what belongs to no window."""

    windows: dict[str, Joined] = field(default_factory=dict)
    duplicates: int = 0
    ghosts: int = 0  # received and never sent

    def total(self, name: str) -> int:
        """Sum of an integer member over all windows."""
        return sum(int(getattr(window, name)) for window in self.windows.values())


def read_ledger(path: Path) -> Ledger:
    """Parse one end's CSV. Raises LedgerError with the line number."""
    ledger = Ledger()
    with path.open(newline="", encoding="ascii") as handle:
        reader = csv.reader(handle)
        try:
            header = next(reader, None)
            if header != HEADER:
                raise LedgerError(f"line 1: header {header} is not {HEADER}")
            for direction, *fields, window in reader:
                column = ledger.tx if direction == "tx" else ledger.rx
                if column is ledger.rx and direction != "rx":
                    raise LedgerError(f"line {reader.line_num}: direction {direction!r}")
                epoch, sequence, size, t_in, t_out = numbers = list(map(int, fields))
                if min(numbers) < 0 or max(numbers) >= BOUND:
                    raise LedgerError(f"line {reader.line_num}: a number outside 0 to 2^62")
                column.key.append((epoch << EPOCH_SHIFT) | sequence)
                column.size_bytes.append(size)
                column.t_in_ns.append(t_in)
                column.t_out_ns.append(t_out)
                column.window.append(window)
        except LedgerError:
            raise
        except (ValueError, OverflowError, csv.Error) as error:
            raise LedgerError(f"line {reader.line_num}: {error}") from error
    return ledger


def without_window(column: Column, window: str) -> Column:
    """The rows of every other window; the column itself where it has none of that one."""
    if window not in column.window:
        return column
    kept = [index for index, name in enumerate(column.window) if name != window]
    return Column(
        key=[column.key[i] for i in kept],
        size_bytes=array("q", (column.size_bytes[i] for i in kept)),
        t_in_ns=array("q", (column.t_in_ns[i] for i in kept)),
        t_out_ns=array("q", (column.t_out_ns[i] for i in kept)),
        window=[column.window[i] for i in kept],
    )


def join(sender: Column, receiver: Column) -> Join:
    """Match one direction. A window is the sender's: the receiver's gate may close a little later.

    Reordered = arrived after one with a higher key (RFC 4737 §3.3). Lost = sent, in no row of the receiver.
    """
    result = Join()
    sent_at = {key: index for index, key in enumerate(sender.key)}
    result.duplicates = len(sender.key) - len(sent_at)
    seen: set[int] = set()
    highest = -1
    for index in range(len(receiver.key)):
        key = receiver.key[index]
        if key in seen:
            result.duplicates += 1
            continue
        seen.add(key)
        origin = sent_at.get(key)
        if origin is None:
            result.ghosts += 1
            continue
        window = result.windows.setdefault(sender.window[origin], Joined())
        if key < highest:
            window.reordered += 1
        highest = max(highest, key)
        window.resized += receiver.size_bytes[index] != sender.size_bytes[origin]
        window.delivered_bytes += receiver.size_bytes[index]
        window.latency_ns.append(receiver.t_out_ns[index] - sender.t_in_ns[origin])
        window.transit_ns.append(receiver.t_in_ns[index] - sender.t_in_ns[origin])
    for index, key in enumerate(sender.key):
        window = result.windows.setdefault(sender.window[index], Joined())
        window.sent += 1
        window.sealed_bytes += sender.size_bytes[index]
        window.lost += key not in seen
        t_in = sender.t_in_ns[index]
        window.first_in_ns = t_in if window.first_in_ns is None else min(window.first_in_ns, t_in)
        window.last_in_ns = t_in if window.last_in_ns is None else max(window.last_in_ns, t_in)
    return result
