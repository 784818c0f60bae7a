"""Files that another process has open: Windows refuses to replace or open one just then, Linux does not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

TRIES: Final = 20
PAUSE_S: Final = 0.003
"""Readers hold such a file for less than a millisecond; all tries together take 60 ms."""

Result = TypeVar("Result")


def patiently(action: Callable[[], Result], *, platform: str = sys.platform) -> Result:
    """`action`, on Windows again while it raises PermissionError (ERROR_SHARING_VIOLATION,
    ERROR_ACCESS_DENIED); raises the last one."""
    for _ in range(TRIES - 1 if platform == "win32" else 0):
        try:
            return action()
        except PermissionError:
            time.sleep(PAUSE_S)
    return action()
