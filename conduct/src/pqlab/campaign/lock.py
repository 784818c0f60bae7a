"""A file that one process holds: the kernel lets go when the process dies, however it dies."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO


class Lock:
    """Of one folder, by the file `lock` in it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: TextIO | None = None

    def take(self) -> bool:
        """False where another process holds it. Raises OSError where the file cannot be made."""
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def is_held(self) -> bool:
        """By any process? Makes no file: the folder may be becoming a bundle."""
        try:
            file = self._path.open("r+")
        except OSError:
            return False
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False
