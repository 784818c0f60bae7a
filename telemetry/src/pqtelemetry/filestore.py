"""The telemetry file: bounded (see segments), append-only, a tick is in it whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from pqtelemetry.errors import StoreError
from pqtelemetry.procfile import FLAGS
from pqtelemetry.segments import SEGMENTS, default_bound_bytes, push


class FileStore:
    """Appends ticks to a file; one writer only."""

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        """Open for appending; a torn last line of an earlier process is cut off. `max_bytes`: the bound of
        all segments together, the default one where None. Raises StoreError."""
        self.path = path
        bound_bytes = default_bound_bytes(path) if max_bytes is None else max_bytes
        self._segment_bytes = max(1, bound_bytes // SEGMENTS)
        self._fd = -1
        self._size = 0
        self.last_error: str | None = None
        try:
            self._open()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | FLAGS, 0o644)
        self._size = os.fstat(self._fd).st_size
        while self._size:
            start = max(0, self._size - 65_536)
            os.lseek(self._fd, start, os.SEEK_SET)  # Windows has no pread; writing appends, wherever this is
            tail = os.read(self._fd, self._size - start)
            if tail.endswith(b"\n"):
                break
            self._size = start + tail.rfind(b"\n") + 1
            os.ftruncate(self._fd, self._size)

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        push(self.path)
        self._open()

    def append(self, data: bytes) -> bool:
        """Write one tick's lines; False when the disk refuses, with `last_error` set and nothing torn."""
        try:
            if self._fd < 0:
                self._open()
            if self._size and self._size + len(data) > self._segment_bytes:
                self._rotate()
            written = 0
            try:
                while written < len(data):
                    written += os.write(self._fd, data[written:])
            except OSError:
                os.ftruncate(self._fd, self._size)
                raise
        except OSError as error:
            self.last_error = error.strerror or str(error)
            return False
        self._size += len(data)
        self.last_error = None
        return True

    def close(self) -> None:
        """Hand everything to the disk and close."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1
