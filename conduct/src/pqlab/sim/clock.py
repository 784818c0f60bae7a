"""Virtual time of a simulated run: it moves only when the model says so."""

from __future__ import annotations

import threading

#: 2000-01-01T00:00:00Z, where every simulated run begins; no real run can be mistaken for one
START_NS = 946_684_800_000_000_000
#: every reading by a tracer costs this, so that no step of a handshake lasts nothing
LOOK_NS = 1_000


class VirtualClock:
    """The one clock of controller, drone and gcs. Satisfies `campaign.clock.Clock`."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._lock = threading.Lock()

    def realtime_ns(self) -> int:
        return START_NS + self._now_ns

    def monotonic_s(self) -> float:
        return self._now_ns / 1e9

    def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1e9))

    def mono_ns(self) -> int:
        """Monotonic nanoseconds, as spans carry them."""
        return self._now_ns

    def look_ns(self) -> int:
        """The same for a tracer, whose look takes time."""
        self.advance(LOOK_NS)
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """Let time pass. Raises ValueError for a negative duration: virtual time never goes back."""
        if duration_ns < 0:
            raise ValueError(f"virtual time cannot go back by {-duration_ns} ns")
        with self._lock:
            self._now_ns += duration_ns

    def advance_to(self, mono_ns: int) -> None:
        """Let time pass until `mono_ns`; at once when it is past already."""
        with self._lock:
            self._now_ns = max(self._now_ns, mono_ns)
