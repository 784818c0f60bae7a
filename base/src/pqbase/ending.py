"""What ends a process: SIGTERM, SIGINT, Windows' Ctrl-Break, or the end of standard input where asked for.

Windows has no signal that every starter can send: a service has no console, and wine passes no CTRL_BREAK on.
A pipe's other end closes when its owner says so, and when its owner dies.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

STDIN_OPTION: Final = "--stop-with-stdin"
STDIN_HELP: Final = "end when standard input ends (a service host holds its other end)"
_SLICE_S: Final = 0.25
"""A signal is heeded between waits. Windows' Python runs no handler before a wait on a lock ends."""


class Ending:
    """Installs the handlers (main thread only); `wait` returns once the process shall end."""

    def __init__(self, *, with_stdin: bool = False) -> None:
        self._over = threading.Event()
        self._signalled = False
        on_signals(self._on_signal)
        if with_stdin:
            watch_stdin(self._over.set)

    def _on_signal(self) -> None:
        # An event's lock may be held by this very thread, a moment before or after it waits: no event here.
        self._signalled = True

    def wait(self, timeout_s: float = math.inf) -> bool:
        """True once one of them has come, False after `timeout_s`; a signal is heeded within a quarter of a
        second."""
        end_s = time.monotonic() + timeout_s
        while not self._signalled and not self._over.wait(min(_SLICE_S, max(0.0, end_s - time.monotonic()))):
            if time.monotonic() >= end_s:
                return self._signalled
        return True


def on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at each signal that asks to end (main thread only). It runs as a handler: take no lock."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, handle)


def watch_stdin(stop: Callable[[], None], descriptor: int = 0) -> None:
    """Call `stop` once, from a thread of its own, when `descriptor` ends or cannot be read. Bytes that come
    are thrown away."""
    threading.Thread(target=_until_end, args=(stop, descriptor), name="stdin-end", daemon=True).start()


def _until_end(stop: Callable[[], None], descriptor: int) -> None:
    # os.read, not sys.stdin: a thread inside a buffered reader would hold its lock while the process ends.
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:  # no standard input at all is an ended one
        pass
    stop()
