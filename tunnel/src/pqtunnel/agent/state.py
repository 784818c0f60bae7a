"""States of an agent: idle → prepared → running → draining → idle, with a watchdog for a controller that
died."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from pqtunnel.errors import TunnelError

State = Literal["idle", "prepared", "running", "draining"]
WATCHDOG_S: Final = 60.0

_NEXT: Final[dict[State, str]] = {
    "idle": "call prepare",
    "prepared": "call start, or stop to give the cell up",
    "running": "call event or stop",
    "draining": "wait for stop to return",
}


class BadStateError(TunnelError):
    """A method was called in a state that does not allow it, or for another cell."""

    code = "bad_state"


class CellState:
    """State and cell id, changed together under one lock; remembers when the controller last spoke."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._state: State = "idle"
        self._cell_id: str | None = None
        self._busy = 0
        self._touched_s = clock()

    @property
    def state(self) -> State:
        """The present state."""
        return self._state

    @property
    def cell_id(self) -> str | None:
        """The present cell, or the last one while idle."""
        return self._cell_id

    def touch(self) -> None:
        """The controller spoke."""
        self._touched_s = self._clock()

    @contextmanager
    def activity(self) -> Iterator[None]:
        """A long call in progress keeps the watchdog quiet."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
            self.touch()

    def require(self, method: str, cell_id: str, *allowed: State) -> None:
        """Raise BadStateError unless the state is one of `allowed` and the cell is the present one."""
        with self._lock:
            if self._state not in allowed:
                raise BadStateError(
                    f"{method} needs state {' or '.join(allowed)}, the agent is {self._state}",
                    hint=_NEXT[self._state] + (f" (cell {self._cell_id})" if self._state != "idle" else ""),
                )
            if cell_id != self._cell_id:
                raise BadStateError(
                    f"{method} is for cell {cell_id}, the agent works on {self._cell_id}",
                    code="unknown_cell",
                    hint=f"stop cell {self._cell_id} first",
                )

    def enter(self, state: State, *, cell_id: str | None = None, since: tuple[State, ...]) -> None:
        """Move to `state` from one of `since`; raises BadStateError. `cell_id` names a new cell."""
        with self._lock:
            if self._state not in since:
                raise BadStateError(
                    f"cannot go from {self._state} to {state}",
                    hint=_NEXT[self._state] + (f" (cell {self._cell_id})" if self._cell_id else ""),
                )
            self._state = state
            if cell_id is not None:
                self._cell_id = cell_id

    def expired(self) -> bool:
        """Has the controller been silent too long while a cell is held?"""
        with self._lock:
            held = self._state in ("prepared", "running") and self._busy == 0
            return held and self._clock() - self._touched_s > WATCHDOG_S
