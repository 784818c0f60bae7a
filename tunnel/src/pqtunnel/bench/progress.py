"""What a run says while it works: one line that is rewritten in a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

_TERMINAL_EVERY_S: Final = 0.5
_LOG_EVERY_S: Final = 60.0


def clock_text(milliseconds: float) -> str:
    """4 s, 12 min 05 s, 3 h 07 min."""
    seconds = round(milliseconds / 1e3)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 60} min {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"


class Progress:
    """`begin` a piece of work, `step` through it as often as one likes: only what is due is written.

    In a log a piece is one line when it begins, and one a minute where it is long.
    """

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now_s = now_s
        self._live = stream.isatty()
        self._every_s = _TERMINAL_EVERY_S if self._live else _LOG_EVERY_S
        self._head = ""
        self._width = 0
        self._last_s = 0.0

    def begin(self, place: int, total: int, what: str, left_ms: float) -> None:
        """Piece `place` of `total` begins; `left_ms` of work are expected from here on."""
        self._head = f"[{place}/{total}] {what}"
        self._write(f"{self._head}, about {clock_text(left_ms)} left")

    def step(self, done: int, count: int) -> None:
        """`done` of `count` iterations of the piece are over."""
        if self._now_s() - self._last_s >= self._every_s:
            self._write(f"{self._head}: {done} of {count}")

    def end(self) -> None:
        """Nothing more comes: free the terminal's line."""
        if self._live and self._width:
            print("\r" + " " * self._width + "\r", end="", file=self._stream, flush=True)

    def _write(self, text: str) -> None:
        self._last_s = self._now_s()
        if not self._live:
            print(text, file=self._stream, flush=True)
            return
        shown = text[:110]
        print("\r" + shown.ljust(self._width), end="", file=self._stream, flush=True)
        self._width = len(shown)
