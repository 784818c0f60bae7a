"""Virtual time: a queue of what happens when. Same calls, same order, same run."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

MS: int = 1_000_000
S: int = 1_000_000_000
Action = Callable[[], None]


class Timer:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("action", "at_ns")

    def __init__(self, at_ns: int, action: Action) -> None:
        self.at_ns = at_ns
        self.action: Action | None = action

    def cancel(self) -> None:
        """It will not happen."""
        self.action = None


class VirtualClock:
    """Monotonic nanoseconds that pass only when `run_until` says so."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()

    def after(self, delay_ns: int, action: Action) -> Timer:
        """Do `action` in `delay_ns` (at once: 0); what was planned first happens first."""
        timer = Timer(self.now_ns + max(0, delay_ns), action)
        heapq.heappush(self._queue, (timer.at_ns, next(self._order), timer))
        return timer

    def run_until(self, end_ns: int, after_each: Action | None = None) -> None:
        """Let time pass; `after_each` runs after every action."""
        while self._queue and self._queue[0][0] <= end_ns:
            self.now_ns, _, timer = heapq.heappop(self._queue)
            if timer.action is not None:
                timer.action()
                if after_each is not None:
                    after_each()
        self.now_ns = max(self.now_ns, end_ns)
