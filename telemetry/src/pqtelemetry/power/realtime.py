"""Ask the kernel to wake this process on time; what was granted is said, because it decides the jitter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PRIORITY: Final = 20
_NICE: Final = -15
_TIMER_SLACK: Final = Path("/proc/self/timerslack_ns")


def be_punctual() -> str:
    """SCHED_FIFO where it is permitted, else a negative nice value, else what it is; and timer slack of 1 µs.

    Returns e.g. `SCHED_FIFO 20, timer slack 1000 ns`: part of the raw file's header.
    """
    return f"{_scheduling()}, {_slack()}"


def _scheduling() -> str:
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
        _TIMER_SLACK.write_text("1000")
        return f"timer slack {int(_TIMER_SLACK.read_text())} ns"
    except (OSError, ValueError):
        return "timer slack unknown"
