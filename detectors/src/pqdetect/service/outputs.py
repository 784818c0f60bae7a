"""Where verdicts go: a file that is turned over before it grows, and Telegraf, which may be away."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pqdetect.service.verdict import Verdict

FILE: Final = "verdicts.ndjson"
#: about 80 minutes of lines; the file before this one is kept as well
MAX_BYTES: Final = 4 << 20
_RETRY_S: Final = 5.0
_CONNECT_S: Final = 0.2


class VerdictFile:
    """Whole lines, flushed one by one. `verdicts.ndjson.1` holds what came before the present file."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        """Raises OSError when the folder cannot be made or written."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self._max_bytes = max_bytes
        self._file = self._path.open("ab", buffering=0)

    def write(self, verdicts: list[Verdict]) -> None:
        """Append. Raises OSError."""
        if not verdicts:
            return
        self._file.write("".join(f"{verdict.line()}\n" for verdict in verdicts).encode())
        if self._file.tell() > self._max_bytes:
            self._file.close()
            self._path.replace(self._path.with_name(f"{FILE}.1"))
            self._file = self._path.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()


class Telegraf:
    """Lines over TCP; what cannot be sent at once is dropped and counted. It is a view, not the record."""

    def __init__(
        self,
        address: tuple[str, int] | None,
        host: str = "drone",
        ring: str = "lab",
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._tags = host, ring
        self._clock_s = clock_s
        self._socket: socket.socket | None = None
        self._again_s = 0.0
        self.dropped_count = 0

    def write(self, verdicts: list[Verdict]) -> None:
        """Never raises, never waits longer than a connection attempt on the same machine takes."""
        if self._address is None or not verdicts:
            return
        try:
            self._connected().sendall("".join(verdict.points(*self._tags) for verdict in verdicts).encode())
        except OSError:
            # the count is told at the end; half a line left there ends with the connection
            self.dropped_count += len(verdicts)
            self.close()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            if self._clock_s() < self._again_s:
                raise ConnectionError("waiting before the next attempt")
            self._again_s = self._clock_s() + _RETRY_S
            assert self._address is not None
            self._socket = socket.create_connection(self._address, timeout=_CONNECT_S)
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None
