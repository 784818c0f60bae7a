"""`--stop-with-stdin`: the end of standard input ends the process, for whoever starts it with a pipe there.

Windows has no signal that every starter can send: a service has no console, and wine passes no CTRL_BREAK on.
A pipe's other end closes when its owner says so, and when its owner dies.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

OPTION: Final = "--stop-with-stdin"
HELP: Final = "end when standard input ends (a service host holds its other end)"


def watch(stop: Callable[[], None], descriptor: int = 0) -> None:
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
