"""The sealed datagrams of a cell, in order of time, as both ledgers have them.

A ledger knows of each data datagram its epoch, sequence, size and times, and not one byte of it: the receiver
index of its header is in no file. So a capture made of it has packets of known length without content.
Handshakes (TCP), keepalives and foreign traffic have no ledger row and are not here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pqevidence.exchange.pcapng import Capture
from pqevidence.record.ledger import Column, Ledger
from pqtunnel.blackout import EPOCH_SHIFT

_SEQUENCE_MASK = (1 << EPOCH_SHIFT) - 1
#: bits of a packet id: which way, epoch, sequence
_EPOCH_BITS, _SEQUENCE_BITS = 15, 48
_TEXT = {
    "drone": "the drone's sealed UDP port, by the drone's clock",
    "gcs": "the ground's sealed UDP port, by the ground's clock",
}
_LENGTHS = (
    "; lengths are those of the UDP payload; sent: when the send call returned; received: the kernel's stamp "
    "where it gives one"
)


@dataclass(frozen=True)
class Seen:
    """One datagram at one end; t_ns: realtime of that end; up: from the ground to the drone."""

    t_ns: int
    role: str
    sent: bool
    up: bool
    epoch: int
    sequence: int
    size_bytes: int
    window: str

    @property
    def packet_id(self) -> int | None:
        """The same at both ends, another for every other datagram of the cell; None beyond its bits."""
        if self.epoch >> _EPOCH_BITS or self.sequence >> _SEQUENCE_BITS:
            return None
        return self.up << 63 | self.epoch << _SEQUENCE_BITS | self.sequence


def seen(ledgers: dict[str, Ledger]) -> Iterator[Seen]:
    """Every row of both ends, merged by time: a sent one when it left, a received one when it came in."""
    columns = []
    for role in sorted(ledgers):
        ledger = ledgers[role]
        columns.append(_in_time(role, ledger.tx, sent=True))
        columns.append(_in_time(role, ledger.rx, sent=False))
    return heapq.merge(*columns, key=lambda one: one.t_ns)


def _in_time(role: str, column: Column, *, sent: bool) -> Iterator[Seen]:
    times = column.t_out_ns if sent else column.t_in_ns
    for index in sorted(range(len(column)), key=times.__getitem__):
        key = column.key[index]
        yield Seen(
            t_ns=times[index],
            role=role,
            sent=sent,
            up=(role == "gcs") is sent,
            epoch=key >> EPOCH_SHIFT,
            sequence=key & _SEQUENCE_MASK,
            size_bytes=column.size_bytes[index],
            window=column.window[index],
        )


def write_capture(capture: Capture, roles: Iterable[str], rows: Iterable[Seen]) -> int:
    """Interfaces of the given ends, then every datagram; returns how many packets were written."""
    interfaces = {role: capture.interface(role, _TEXT[role] + _LENGTHS) for role in sorted(roles)}
    count = 0
    for row in rows:
        capture.packet(
            interfaces[row.role],
            row.t_ns,
            b"",
            row.size_bytes,
            outbound=row.sent,
            packet_id=row.packet_id,
            comment=f"{row.window} epoch {row.epoch} sequence {row.sequence}",
        )
        count += 1
    return count
