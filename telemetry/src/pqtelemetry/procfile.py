"""Files of /proc and /sys that are opened once and read many times with pread.

Keeping the descriptor saves the path walk on every sample, and a descriptor of /proc/<pid>/… keeps
naming that process: after its death a read fails instead of describing a stranger with the same pid.
"""

from __future__ import annotations

import os
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable

_CHUNK_BYTES = 65_536


class ProcFile:
    """One kernel file; opened at the first read and again after a failure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def read(self) -> bytes:
        """Whole content; raises SensorUnavailable naming the file and the reason."""
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(self._fd, _CHUNK_BYTES, 0)
            if len(data) < _CHUNK_BYTES:
                return data
            # Long files (many cores, many interfaces): read on to the end.
            parts = [data]
            offset = len(data)
            while data:
                data = os.pread(self._fd, _CHUNK_BYTES, offset)
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


def read_text(path: Path) -> str | None:
    """Content of a small file that may be absent, stripped; None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return None
