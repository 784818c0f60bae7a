"""The real clock, woken early by SIGTERM or SIGINT: by a pipe, on Windows at the end of a short sleep."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Final

from pqbase.ending import on_signals

_LONG_NS: Final = 20_000_000
"""Up to here a wait is a plain sleep, at a third of the cost, and a signal is heeded when it ends."""
_SLICE_NS: Final = 50_000_000
"""Windows' select takes no pipe: a wait there is made of sleeps of this length."""


class SystemClock:
    """CLOCK_MONOTONIC and CLOCK_REALTIME; `wait_until` ends at once after `stop` or a signal.

    `still_wanted` is asked before every `ask_every`-th wait: False ends the sampler.
    """

    def __init__(self, still_wanted: Callable[[], bool] = lambda: True, ask_every: int = 1) -> None:
        self._still_wanted = still_wanted
        self._ask_every = ask_every
        self._asked = 0
        self._read_fd, self._write_fd = _pipe()
        self._stopped = False

    def install_signals(self) -> None:
        """SIGTERM and SIGINT end the run after the current tick (main thread only)."""
        on_signals(self.stop)

    def stop(self) -> None:
        """End the current wait; safe from a signal handler."""
        if not self._stopped:
            self._stopped = True
            if self._write_fd >= 0:
                os.write(self._write_fd, b"x")

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def realtime_ns(self) -> int:
        """Nanoseconds of CLOCK_REALTIME."""
        return time.time_ns()

    def wait_until(self, deadline_ns: int) -> bool:
        """Sleep until the deadline; False when stopped or no longer wanted."""
        self._asked += 1
        if self._stopped or (self._asked % self._ask_every == 0 and not self._still_wanted()):
            return False
        left_ns = deadline_ns - time.monotonic_ns()
        if self._read_fd < 0:
            self._sleep_in_slices(deadline_ns)
        elif left_ns > _LONG_NS:
            select.select([self._read_fd], [], [], left_ns / 1e9)
        elif left_ns > 0:
            time.sleep(left_ns / 1e9)
        return not self._stopped

    def _sleep_in_slices(self, deadline_ns: int) -> None:
        """CPython 3.11 and newer sleep by a timer of 0.5 ms on Windows; waits on locks have one of 16 ms."""
        while not self._stopped and (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            time.sleep(min(left_ns, _SLICE_NS) / 1e9)


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe that wakes a select; (-1, -1) on Windows, which has no such select."""
    if sys.platform == "win32":
        return -1, -1
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
