"""Ask the kernel to wake this process on time; what was granted is said, because it decides the jitter."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_PRIORITY: Final = 20
_NICE: Final = -15
_MCL_CURRENT: Final = 1
_MCL_FUTURE: Final = 2
_TIMER_SLACK: Final = Path("/proc/self/timerslack_ns")


def be_punctual(cpu: int | None = None) -> str:
    """SCHED_FIFO where it is permitted, else a negative nice value, else what it is; with SCHED_FIFO one core
    (`cpu`, else the last it may use) and its memory locked; timer slack of 1 ns.

    A loop that the scheduler moves about wakes up later and dearer than one that stays; without SCHED_FIFO it
    has to be free to go where there is room. Returns what was granted, e.g. `SCHED_FIFO 20, core 3, memory
    locked, timer slack 1 ns`: part of the raw file's header.
    """
    if sys.platform == "win32":
        return "no real-time class asked for on Windows"
    scheduling = _scheduling()
    if not scheduling.startswith("SCHED_FIFO"):
        return f"{scheduling}, {_slack()}"
    return f"{scheduling}, {_core(cpu)}, {_memory()}, {_slack()}"


def _core(cpu: int | None) -> str:
    if sys.platform == "win32":
        raise OSError("a Linux call")
    allowed = sorted(os.sched_getaffinity(0))
    chosen = cpu if cpu in allowed else allowed[-1]
    os.sched_setaffinity(0, {chosen})
    return f"core {chosen}"


def _memory() -> str:
    """A page that was taken away costs a fault in the middle of a period."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) == 0:
        return "memory locked"
    return f"memory not locked ({os.strerror(ctypes.get_errno())})"


def _scheduling() -> str:
    if sys.platform == "win32":
        raise OSError("a Linux call")
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except (PermissionError, OSError):  # no CAP_SYS_NICE, or a group without real-time budget
        pass
    else:
        return f"SCHED_FIFO {_PRIORITY}"
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    except PermissionError:
        return f"SCHED_OTHER, nice {os.getpriority(os.PRIO_PROCESS, 0)} (no CAP_SYS_NICE)"
    return f"SCHED_OTHER, nice {_NICE}"


def _slack() -> str:
    """The kernel may wake a sleeper up to 50 µs late to save wake-ups; real-time classes have no slack."""
    try:
        _TIMER_SLACK.write_text("1")
        return f"timer slack {int(_TIMER_SLACK.read_text())} ns"
    except (OSError, ValueError):
        return "timer slack unknown"
