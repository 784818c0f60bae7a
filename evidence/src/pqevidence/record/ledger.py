"""The ledger: one row a data datagram at each end, and the join of both ends on (epoch, sequence).

Columns of integers are kept in `array('q')`, not in row objects: a 72-suite campaign has 2.5 million rows.
"""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, groupby, islice
from operator import itemgetter, lt, ne, sub
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pqevidence.record.plain_rows import read_plain
from pqtunnel.blackout import EPOCH_SHIFT

HEADER = ["direction", "epoch", "sequence", "size_bytes", "t_in_ns", "t_out_ns", "window"]
BOUND = 1 << 62
"""No time (until 2116), size or sequence comes near it; what two numbers below differ by fits a column."""


T = TypeVar("T")


class Take(Protocol):
    """Takes out of a column its rows of one window."""

    def __call__(self, column: Sequence[T], /) -> Sequence[T]: ...


class LedgerError(ValueError):
    """A ledger file that is not what the format says; the message names the line."""


@dataclass
class Column:
    """Rows of one direction in file order; `key` is epoch and sequence as one integer (pqtunnel.blackout).
    Who has asked what its windows hold adds no row."""

    key: list[int] = field(default_factory=list)
    size_bytes: array[int] = field(default_factory=lambda: array("q"))
    t_in_ns: array[int] = field(default_factory=lambda: array("q"))
    t_out_ns: array[int] = field(default_factory=lambda: array("q"))
    window: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def windows(self) -> dict[str, Take]:
        """Each window in the order in which they come, with what takes its rows out of a column."""
        return dict(_by_window(self.window))

    def of_window(self, name: str, column: Sequence[T]) -> Sequence[T]:
        """Of one of the columns the rows of a window; none where there is none of that name."""
        take = self.windows.get(name)
        return column[:0] if take is None else take(column)

    def count_by_window(self) -> dict[str, int]:
        """Rows a window."""
        return {name: len(take(self.window)) for name, take in self.windows.items()}

    def bytes_by_window(self) -> dict[str, int]:
        """Sealed bytes a window."""
        return {name: sum(take(self.size_bytes)) for name, take in self.windows.items()}


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

    @cached_property
    def latencies_ms(self) -> list[float]:
        """In order of size: whoever sorts them for a quantile has less to do."""
        return sorted([ns / 1e6 for ns in self.latency_ns])


@dataclass
class Join:
    """One direction of a cell: per window of the sender, and what belongs to no window."""

    windows: dict[str, Joined] = field(default_factory=dict)
    duplicates: int = 0
    ghosts: int = 0  # received and never sent

    def total(self, name: str) -> int:
        """Sum of an integer member over all windows."""
        return sum(int(getattr(window, name)) for window in self.windows.values())


#: of one stretch of a file, which is read as columns
_STRETCH_BYTES: Final = 1 << 20
_HEADER_LINE: Final = ",".join(HEADER).encode() + b"\n"


def read_ledger(path: Path) -> Ledger:
    """Parse one end's CSV. Raises LedgerError with the line number."""
    ledger = Ledger()
    with path.open("rb") as handle:
        plain = handle.readline() == _HEADER_LINE
        # no more than there is: memory that is asked for and not used takes its time as well
        most = min(os.fstat(handle.fileno()).st_size, _STRETCH_BYTES)
        while plain and (stretch := handle.read(most)):
            plain = _take_columns(ledger, stretch + handle.readline())
    return ledger if plain else _read_rows(path)


def _take_columns(ledger: Ledger, stretch: bytes) -> bool:
    """Whole rows at once: far faster than row by row. False, and nothing is to be made of the ledger, where
    a row is not as a writer leaves it: then the rows are read one by one."""
    rows = read_plain(stretch)
    if rows is None:
        return False
    begin = 0
    for direction, epoch, count in rows.began:
        part = slice(begin, begin + count)
        column = ledger.tx if direction == "tx" else ledger.rx
        column.key += map((epoch << EPOCH_SHIFT).__or__, rows.sequence[part])
        column.size_bytes += rows.size_bytes[part]
        column.t_in_ns += rows.t_in_ns[part]
        column.t_out_ns += rows.t_out_ns[part]
        column.window += rows.window[part]
        begin = part.stop
    return True


def _read_rows(path: Path) -> Ledger:
    """Row by row: whatever a CSV file may hold, and the line of what is wrong with it."""
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
    if sender.key == receiver.key and all(map(lt, sender.key, islice(sender.key, 1, None))):
        return _undisturbed(sender, receiver)
    return _matched(sender, receiver)


def _matched(sender: Column, receiver: Column) -> Join:
    """What `join` gives, whatever became of a row on its way."""
    result = Join()
    sent_at = dict(zip(sender.key, range(len(sender)), strict=True))
    result.duplicates = len(sender) - len(sent_at)
    arrived = set(receiver.key)
    # place of each datagram at the receiver and at the sender, in order of arrival
    here: Iterable[int] = range(len(receiver))
    if len(arrived) < len(receiver) or not arrived <= sent_at.keys():
        here = _first_arrivals(result, receiver, sent_at)
    keys = list(map(receiver.key.__getitem__, here))
    there = list(map(sent_at.__getitem__, keys))
    overtaken = [False, *map(lt, keys[1:], accumulate(keys, max))]
    latency = list(map(sub, map(receiver.t_out_ns.__getitem__, here), map(sender.t_in_ns.__getitem__, there)))
    transit = list(map(sub, map(receiver.t_in_ns.__getitem__, here), map(sender.t_in_ns.__getitem__, there)))
    size = list(map(receiver.size_bytes.__getitem__, here))
    resized = list(map(ne, size, map(sender.size_bytes.__getitem__, there)))
    for name, take in _by_window(list(map(sender.window.__getitem__, there))):
        window = result.windows.setdefault(name, Joined())
        window.reordered = sum(take(overtaken))
        window.resized = sum(take(resized))
        window.delivered_bytes = sum(take(size))
        window.latency_ns = array("q", take(latency))
        window.transit_ns = array("q", take(transit))
    for name, take in sender.windows.items():
        window = result.windows.setdefault(name, Joined())
        sent = take(sender.key)
        window.sent = len(sent)
        window.lost = len(sent) - sum(map(arrived.__contains__, sent))
        window.sealed_bytes = sum(take(sender.size_bytes))
        begun = take(sender.t_in_ns)
        window.first_in_ns, window.last_in_ns = min(begun), max(begun)
    return result


def _undisturbed(sender: Column, receiver: Column) -> Join:
    """The same where all that was sent arrived, once each and in order: rows are matched by their place."""
    result = Join()
    latency = array("q", map(sub, receiver.t_out_ns, sender.t_in_ns))
    transit = array("q", map(sub, receiver.t_in_ns, sender.t_in_ns))
    for name, take in sender.windows.items():
        sent, arrived, begun = take(sender.size_bytes), take(receiver.size_bytes), take(sender.t_in_ns)
        result.windows[name] = Joined(
            sent=len(sent),
            resized=0 if sent == arrived else sum(map(ne, sent, arrived)),
            sealed_bytes=sum(sent),
            delivered_bytes=sum(arrived),
            latency_ns=array("q", take(latency)),
            transit_ns=array("q", take(transit)),
            first_in_ns=min(begun),
            last_in_ns=max(begun),
        )
    return result


def _first_arrivals(result: Join, receiver: Column, sent_at: dict[int, int]) -> list[int]:
    """Places of the rows that count; what came twice, and what was never sent, is counted in `result`."""
    seen: set[int] = set()
    places = []
    for place, key in enumerate(receiver.key):
        if key in seen:
            result.duplicates += 1
            continue
        seen.add(key)
        if key in sent_at:
            places.append(place)
        else:
            result.ghosts += 1
    return places


def _by_window(names: list[str]) -> Iterator[tuple[str, Take]]:
    """Each window in the order in which they come, with what takes its rows out of a column."""
    runs: dict[str, list[slice]] = {}
    begin = 0
    for name, run in groupby(names):
        end = begin + len(list(run))
        runs.setdefault(name, []).append(slice(begin, end))
        begin = end
    for name, parts in runs.items():
        yield name, itemgetter(parts[0]) if len(parts) == 1 else _taker(parts)


def _taker(parts: list[slice]) -> Take:
    def take(column: Sequence[T], /) -> Sequence[T]:
        return [value for part in parts for value in column[part]]

    return take
