"""What an endpoint exports: names of its bins, and one window of it as arrays.

The feed is the tunnel agent's file `feed.json` or its stream `bins`, both of schema `pqtunnel/feed/v1`
(docs/AGENT.md). Counts are read by name, never by place: an agent may append fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.errors import FeedError

SCHEMA: Final = "pqtunnel/feed/v1"
BIN_NS: Final = 20_000_000
WINDOW_BINS: Final = 30
WINDOW_NS: Final = BIN_NS * WINDOW_BINS
WINDOW_S: Final = WINDOW_NS / 1e9

FIELDS: Final = (
    "rx_datagrams",  # datagrams that the sealed socket delivered, whatever they were
    "rx_bytes",  # their UDP payload
    "rx_data",  # authentic data packets
    "rx_keepalive",  # authentic keepalives
    "bad_header",  # dropped: length, type or epoch bits
    "unknown_index",  # dropped: nobody's receiver index
    "auth_failed",  # dropped: the tag did not fit
    "replay",  # dropped: seen before, or too old to tell; second copies within 1 s are in no field here
    "old_epoch",  # dropped: an epoch that ended lately
    "sequence_gap",  # sequences skipped by a new highest: late or lost
    "tx_data",  # data packets sealed and sent
    "tx_bytes",  # their sealed bytes
    "rx_filled",  # authentic packets below the highest: what an earlier gap had counted
    "new_source",  # authentic data from another address than the peer's
    "queue_full",  # datagrams that the sealed socket's kernel queue dropped
    "rx_bytes_sq",  # sum of the squared UDP payloads, bytes²
    "rx_control",  # other authentic control packets (epoch-ack, rekey-request, path frames)
)
"""Counts of one 20 ms bin, in the column order of every array of this package."""

DELTAS: Final = (
    "if_rx_packets", "if_rx_bytes", "if_rx_dropped", "if_tx_packets", "if_tx_bytes",
    "udp_in_errors", "udp_no_ports", "udp_rcvbuf_errors",
)  # fmt: skip
"""What the host's own counters moved by during one window: the sealed side's interface, and UDP of the
host."""

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def column(name: str) -> int:
    """Place of a field in FIELDS; raises FeedError."""
    if name not in FIELDS:
        raise FeedError(f"no field {name!r} in a bin")
    return FIELDS.index(name)


def places(fields: Sequence[str]) -> list[int]:
    """For each of FIELDS its place among a feed's `fields`; raises FeedError that names what is missing."""
    missing = [name for name in FIELDS if name not in fields]
    if missing:
        raise FeedError(f"the feed's bins lack {', '.join(missing)}")
    return [list(fields).index(name) for name in FIELDS]


def window_of(bin_number: int) -> int:
    """Number of the window that holds a bin."""
    return bin_number // WINDOW_BINS


def unknown_deltas() -> Floats:
    """Deltas of a window for which the host's counters were not read: all NaN."""
    return np.full(len(DELTAS), np.nan)


@dataclass(frozen=True)
class WindowInput:
    """One window of 0.6 s as its endpoint saw it."""

    k: int
    """Number of the window: it covers the bins [30 k, 30 k + 30), realtime."""
    counts: Counts
    """(30, len(FIELDS)); bins in which nothing happened are zero."""
    deltas: Floats
    """(len(DELTAS),); NaN where a counter was not read."""

    def __post_init__(self) -> None:
        if self.counts.shape != (WINDOW_BINS, len(FIELDS)):
            raise FeedError(f"window {self.k}: counts are {self.counts.shape}")
        if self.deltas.shape != (len(DELTAS),):
            raise FeedError(f"window {self.k}: deltas are {self.deltas.shape}")

    @property
    def end_ns(self) -> int:
        """Realtime at which the window ended, ns."""
        return (self.k + 1) * WINDOW_NS
