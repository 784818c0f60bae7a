"""The telemetry log of a cell: MAVLink frames that the ground received, as MAVProxy and pymavlink write them.

Format: 8-byte big-endian µs since 1970, then a raw frame, and so on. The bytes in the bundle are those that
the ground's traffic service kept; nothing here makes any.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from pqsitl.errors import TlogError
from pqsitl.tlog import read_frames

#: name in a cell's folder
FILE = "mavlink.gcs.tlog"
#: more than this the ground keeps of no session
MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class FlightLog:
    """What a log holds: frames, those of each message id, first and last time in µs (None without a frame),
    and how often a time lies before the one before it."""

    frames_count: int
    by_message_id: dict[int, int]
    first_us: int | None
    last_us: int | None
    backwards_count: int


def joined(pieces: Iterable[str]) -> bytes:
    """The log of which an agent's stream `tlog` gave the base64 pieces."""
    return b"".join(base64.b64decode(piece, validate=True) for piece in pieces)


def looked_at(data: bytes) -> FlightLog:
    """Read a log from end to end. Raises TlogError, which names the offset of what is no frame."""
    count, backwards = 0, 0
    first = last = None
    kinds: dict[int, int] = {}
    for frame in read_frames(data):
        count += 1
        kinds[frame.message_id] = kinds.get(frame.message_id, 0) + 1
        first = frame.time_us if first is None else first
        backwards += last is not None and frame.time_us < last
        last = frame.time_us
    return FlightLog(count, dict(sorted(kinds.items())), first, last, backwards)


__all__ = ["FILE", "MAX_BYTES", "FlightLog", "TlogError", "joined", "looked_at"]
