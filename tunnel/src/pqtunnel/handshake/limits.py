"""Admission before any work: token buckets by source and by key id, and a bound on half-open handshakes.

Sans-IO: the caller passes monotonic nanoseconds. Memory is bounded.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import Final

from pqtunnel.errors import HalfOpenLimit, RateLimited

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


class HandshakeLimits:
    """Both limits of a GCS. Every `admit` that returns must be paired with one `release`.

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
        self.half_open = 0

    def admit(self, source: str, now_ns: int) -> None:
        """Before the Challenge. Raises HalfOpenLimit or RateLimited, already counted."""
        if self.half_open >= self._max_half_open:
            self._refuse(HalfOpenLimit(f"{self.half_open} handshakes are unfinished; {source} must wait"))
        if not self._sources.take(source, now_ns):
            self._refuse(RateLimited(f"{source} dials too often"))
        self.half_open += 1

    def release(self) -> None:
        """After a handshake ended, however it ended."""
        self.half_open -= 1

    def admit_key(self, key_id: bytes, now_ns: int) -> None:
        """After the Hello's MAC verified, so that nobody can spend another drone's tokens.

        Raises RateLimited, which the state machine that asked counts like every refusal of its own.
        """
        if not self._keys.take(key_id, now_ns):
            raise RateLimited(f"drone {key_id.hex()} dials too often")

    def _refuse(self, error: RateLimited | HalfOpenLimit) -> None:
        self._counters[error.counter] = self._counters.get(error.counter, 0) + 1
        raise error
