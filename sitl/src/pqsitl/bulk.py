"""Bulk payloads that prove themselves: 8-byte big-endian index ‖ body derived from (seed, index, length).

The upper 32 bits of the index are the seed (mod 2^32), the lower 32 a counter from 0, so a sink can check
every byte without being told anything. The body is a slice of a seed's own pseudo-random pool: a table
look-up a datagram, so that neither end costs measurable CPU beside the tunnel.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from pqsitl.errors import SpecError

INDEX_BYTES = 8
MIN_SIZE_BYTES = 16
"""Index and a body long enough that a wrong one cannot pass by chance."""
MAX_SIZE_BYTES = 8192
POOL_BYTES = 1 << 18
_STEP = 2_654_435_761  # Knuth's multiplicative constant: consecutive counters land far apart
_START_COUNT = 253_951  # prime: no counter error of a few bits keeps the start
_SEED_MASK = 0xFFFFFFFF


@lru_cache(maxsize=8)
def _pool(seed: int) -> bytes:
    return hashlib.shake_128(b"pqsitl bulk pool" + seed.to_bytes(4, "big")).digest(POOL_BYTES)


def _slice_start(counter: int, body_bytes: int) -> int:
    return (counter * _STEP + body_bytes * 40_503) % _START_COUNT


class BulkStream:
    """Makes payloads number 0, 1, 2 … of `size_bytes` for one seed."""

    def __init__(self, seed: int, size_bytes: int) -> None:
        if not MIN_SIZE_BYTES <= size_bytes <= MAX_SIZE_BYTES:
            raise SpecError(
                f"size_bytes {size_bytes} is outside {MIN_SIZE_BYTES}…{MAX_SIZE_BYTES}",
                "the usual bulk size is 1200 bytes",
            )
        self.seed = seed & _SEED_MASK
        self.size_bytes = size_bytes
        self._pool = _pool(self.seed)
        self._prefix = self.seed << 32

    def payload(self, counter: int) -> bytes:
        """Payload number `counter`, 0 ≤ counter < 2^32."""
        body_bytes = self.size_bytes - INDEX_BYTES
        start = _slice_start(counter, body_bytes)
        return (self._prefix | counter).to_bytes(INDEX_BYTES, "big") + self._pool[start : start + body_bytes]


@dataclass
class _SeenStream:
    pool: bytes
    seen: bytearray = field(default_factory=bytearray)
    highest: int = -1
    distinct: int = 0


class BulkVerifier:
    """Counts intact, corrupt, duplicate and missing payloads.

    Of any number of streams, or of one when its seed and size are told: anything else is corrupt then.
    """

    max_streams = 64

    def __init__(self, expected_seed: int | None = None, expected_size: int | None = None) -> None:
        self._expected_seed = None if expected_seed is None else expected_seed & _SEED_MASK
        self._expected_size = expected_size
        self.count = 0
        self.byte_count = 0
        self.corrupt = 0
        self.duplicate = 0
        self._streams: dict[int, _SeenStream] = {}

    def accept(self, datagram: bytes) -> None:
        """Check one received datagram; empty ones are announcements and count nowhere."""
        size = len(datagram)
        if size == 0:
            return
        self.count += 1
        self.byte_count += size
        if not MIN_SIZE_BYTES <= size <= MAX_SIZE_BYTES:
            self.corrupt += 1
            return
        seed = int.from_bytes(datagram[:4], "big")
        if self._expected_seed not in (None, seed) or self._expected_size not in (None, size):
            self.corrupt += 1
            return
        counter = int.from_bytes(datagram[4:INDEX_BYTES], "big")
        stream = self._streams.get(seed)
        pool = _pool(seed) if stream is None else stream.pool
        start = _slice_start(counter, size - INDEX_BYTES)
        if datagram[INDEX_BYTES:] != pool[start : start + size - INDEX_BYTES]:
            self.corrupt += 1
            return
        if stream is None:
            # Only a payload that proved itself opens a stream: noise cannot fill the table.
            if len(self._streams) >= self.max_streams:
                self._streams.pop(next(iter(self._streams)))
            stream = self._streams[seed] = _SeenStream(pool)
        self._mark(stream, counter)

    def _mark(self, stream: _SeenStream, counter: int) -> None:
        place, bit = counter >> 3, 1 << (counter & 7)
        if place >= len(stream.seen):
            stream.seen.extend(bytes(place + 1024 - len(stream.seen)))
        if stream.seen[place] & bit:
            self.duplicate += 1
            return
        stream.seen[place] |= bit
        stream.distinct += 1
        stream.highest = max(stream.highest, counter)

    @property
    def distinct(self) -> int:
        """Intact payloads, each counted once."""
        return sum(stream.distinct for stream in self._streams.values())

    def missing(self, expected_count: int | None = None) -> int:
        """Payloads that never came: gaps below the highest seen, or all of `expected_count` when known."""
        if expected_count is not None:
            return max(0, expected_count - self.distinct)
        return sum(stream.highest + 1 - stream.distinct for stream in self._streams.values())

    def as_dict(self, expected_count: int | None = None) -> dict[str, object]:
        """{count, bytes, corrupt, duplicate, missing, distinct}."""
        return {
            "count": self.count,
            "bytes": self.byte_count,
            "corrupt": self.corrupt,
            "duplicate": self.duplicate,
            "missing": self.missing(expected_count),
            "distinct": self.distinct,
        }
