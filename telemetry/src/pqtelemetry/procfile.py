"""Files of /proc and /sys that are opened once and read many times with pread.

Keeping the descriptor saves the path walk on every sample, and a descriptor of /proc/<pid>/… keeps
naming that process: after its death a read fails instead of describing a stranger with the same pid.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from pqtelemetry.errors import SensorUnavailable

_CHUNK_BYTES = 65_536
if sys.platform == "win32":
    FLAGS: Final = os.O_BINARY | os.O_NOINHERIT
else:
    FLAGS: Final = os.O_CLOEXEC
"""What every open adds: bytes as they are, and no descriptor for a child."""


class ProcFile:
    """One kernel file; opened at the first read and again after a failure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def read(self) -> bytes:
        """Whole content; raises SensorUnavailable naming the file and the reason."""
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDONLY | FLAGS)
            data = _read_at(self._fd, 0)
            if len(data) < _CHUNK_BYTES:
                return data
            # Long files (many cores, many interfaces): read on to the end.
            parts = [data]
            offset = len(data)
            while data:
                data = _read_at(self._fd, offset)
                offset += len(data)
                parts.append(data)
            return b"".join(parts)
        except OSError as error:
            self.close()
            raise SensorUnavailable(f"{self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the descriptor; the next read opens the file again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _read_at(descriptor: int, offset: int) -> bytes:
    """At most a chunk from `offset` on; Windows has no pread."""
    if sys.platform == "win32":
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, _CHUNK_BYTES)
    return os.pread(descriptor, _CHUNK_BYTES, offset)


def read_text(path: Path) -> str | None:
    """Content of a small file that may be absent, stripped; None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return None
