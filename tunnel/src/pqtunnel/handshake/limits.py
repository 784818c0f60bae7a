"""Admission before any work: token buckets by source and by key id, and a bound on half-open handshakes.

Sans-IO: the caller passes monotonic nanoseconds. Memory is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass
from typing import Final, NoReturn

from pqtunnel.errors import Evicted, HalfOpenLimit, RateLimited

BASE_DEADLINE_S: Final = 5.0
"""A handshake's time from connect or accept, before the suite's allowance (docs/PROTOCOL.md)."""
_MAX_BUCKETS: Final = 4096


class TokenBuckets:
    """One token bucket a name: `rate_per_s` tokens a second, at most `burst`."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_ns = rate_per_s / 1e9
        self._burst = float(burst)
        self._buckets: dict[Hashable, tuple[float, int]] = {}

    def take(self, name: Hashable, now_ns: int) -> bool:
        """Take one token; False when there is none."""
        tokens, then_ns = self._buckets.pop(name, (self._burst, now_ns))
        tokens = min(self._burst, tokens + (now_ns - then_ns) * self._rate_per_ns)
        admitted = tokens >= 1.0
        # Popped and set again, so the first entry is the one untouched for longest. Forgetting it can only
        # give a source its full burst back, and costs the same however many sources a flood invents.
        if len(self._buckets) >= _MAX_BUCKETS:
            self._buckets.pop(next(iter(self._buckets)))
        self._buckets[name] = (tokens - 1.0 if admitted else tokens, now_ns)
        return admitted


@dataclass(eq=False)
class Slot:
    """One handshake in progress. `authentic`: its Hello's MAC has verified, so a drone's PSK is behind it.
    `evicted`: it lost its place to a newer one; the shell ends it."""

    source: str
    authentic: bool = False
    evicted: bool = False


class HandshakeLimits:
    """Both limits of a GCS. Every `admit` that returns must be paired with one `release`.

    A bound that only refuses lets whoever comes first keep everybody else out, by saying nothing. So when all
    places are taken, a newcomer takes that of the oldest handshake without a right Hello, of the source that
    holds the most such places. A drone needs its place for one round trip before it is authentic, and then
    nobody takes it; strangers who wait only push out one another.

    The defaults let one drone repeat cold handshakes back to back, which a measurement does, and still
    bound what a stranger can make the GCS do: a Challenge and one MAC an attempt.
    """

    def __init__(
        self,
        counters: MutableMapping[str, int],
        *,
        rate_per_s: float = 2000.0,
        burst: int = 4000,
        max_half_open: int = 64,
    ) -> None:
        self._counters = counters
        self._sources = TokenBuckets(rate_per_s, burst)
        self._keys = TokenBuckets(rate_per_s, burst)
        self._max_half_open = max_half_open
        self._slots: dict[Slot, None] = {}

    @property
    def half_open(self) -> int:
        """Handshakes in progress."""
        return len(self._slots)

    def admit(self, source: str, now_ns: int) -> tuple[Slot, Slot | None]:
        """Before the Challenge: (the newcomer's place, the one it took it from). Raises RateLimited, and
        HalfOpenLimit when every handshake in progress is an authentic one; both already counted."""
        if not self._sources.take(source, now_ns):
            self._refuse(RateLimited(f"{source} dials too often"))
        victim = self._give_way() if len(self._slots) >= self._max_half_open else None
        if victim is None and len(self._slots) >= self._max_half_open:
            self._refuse(HalfOpenLimit(f"{self.half_open} handshakes are unfinished; {source} must wait"))
        slot = Slot(source)
        self._slots[slot] = None
        return slot, victim

    def _give_way(self) -> Slot | None:
        strangers = [slot for slot in self._slots if not slot.authentic]  # in order of arrival
        if not strangers:
            return None
        held = Counter(slot.source for slot in strangers)
        most = max(held.values())
        victim = next(slot for slot in strangers if held[slot.source] == most)
        victim.evicted = True
        del self._slots[victim]
        return victim

    def release(self, slot: Slot) -> None:
        """After a handshake ended, however it ended."""
        self._slots.pop(slot, None)

    def admit_key(self, key_id: bytes, slot: Slot, now_ns: int) -> None:
        """After the Hello's MAC verified, so that nobody can spend another drone's tokens.

        Raises RateLimited, or Evicted when the Hello came too late; the state machine that asked counts them
        like every refusal of its own.
        """
        if slot.evicted:
            raise Evicted(f"the Hello of drone {key_id.hex()} came when its place was taken already")
        if not self._keys.take(key_id, now_ns):
            raise RateLimited(f"drone {key_id.hex()} dials too often")
        slot.authentic = True

    def _refuse(self, error: RateLimited | HalfOpenLimit) -> NoReturn:
        self._counters[error.counter] = self._counters.get(error.counter, 0) + 1
        raise error
