"""How long one look may take: a submission that keeps a processor busy for ever is refused as any other."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class OutOfTime(BaseException):
    """Not an Exception: what reads damaged files goes on after one, and the time is over for all of it."""


@contextlib.contextmanager
def most_time(limit_s: float) -> Iterator[None]:
    """Raises OutOfTime once this process has used so much of a processor. Where it then goes on within one
    call that is not Python's, the process ends after as long again. Without a limit on Windows, which has no
    such timers, and outside of the main thread, which alone hears signals."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_: int, __: FrameType | None) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    signal.setitimer(signal.ITIMER_PROF, 2 * limit_s)  # nobody listens to SIGPROF: it ends the process
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGVTALRM, before)
