"""Lines that a pilot types, read in a thread so that a session never waits for them."""

from __future__ import annotations

import queue
import threading
from typing import TextIO


class Lines:
    """What came on a stream so far.

    ended: the input is over and there was some, or it was a terminal's: the pilot is done. A stream that
    was closed or empty from the beginning (`</dev/null`, a service) says nothing, and the session runs on.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ended = threading.Event()
        if stream is not None and not stream.closed:
            threading.Thread(target=self._read, args=(stream,), name="fly-lines", daemon=True).start()

    def next(self, wait_s: float) -> str | None:
        """The next line, None where none came in time."""
        try:
            return self._lines.get(timeout=wait_s)
        except queue.Empty:
            return None

    @property
    def ended(self) -> bool:
        """The pilot has ended the input, and every line of it was taken."""
        return self._ended.is_set() and self._lines.empty()

    def _read(self, stream: TextIO) -> None:
        some = stream.isatty()
        for line in stream:
            some = True
            self._lines.put(line)
        if some:
            self._ended.set()
