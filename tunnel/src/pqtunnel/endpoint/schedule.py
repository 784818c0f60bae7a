"""Rekeys at a fixed pace while a traffic window is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol


class Armed(Protocol):
    """What waits for the gate and rekeys while it is open: a pace, or a policy."""

    def open(self) -> None: ...

    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


class RekeySchedule:
    """Armed by an event, starts when the gate opens, ends when it closes or after `count` rekeys.

    `rekey(suite_id)` blocks; a suite id is taken from `suites` in turn (none: the one in use). A rekey that
    takes longer than `every_s` delays the next one instead of piling up.
    """

    def __init__(
        self,
        rekey: Callable[[str | None], None],
        every_s: float,
        count: int | None,
        suites: Sequence[str],
        start_s: float,
    ) -> None:
        self._rekey = rekey
        self._every_s = every_s
        self._count = count
        self._suites = suites
        self._start_s = start_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rekey-schedule", daemon=True)
        self._opened_s = 0.0

    def open(self) -> None:
        """The gate has opened; opening again changes nothing."""
        if not self._opened_s:
            self._opened_s = time.monotonic()
            self._thread.start()

    @property
    def is_open(self) -> bool:
        """Has the gate opened on it?"""
        return bool(self._opened_s)

    def close(self) -> None:
        """No further rekey starts; one in flight goes on."""
        self._ended.set()

    def _run(self) -> None:
        next_s = self._opened_s + self._start_s
        place = 0
        while self._count is None or place < self._count:
            if self._ended.wait(max(0.0, next_s - time.monotonic())):
                return
            self._rekey(self._suites[place % len(self._suites)] if self._suites else None)
            place += 1
            next_s = max(next_s + self._every_s, time.monotonic())
