"""A result folder belongs to one mode and, while a run lasts, to one process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pqtunnel.bench.rawfiles import BenchError

ENVIRONMENT = "environment.json"


@contextmanager
def held(root: Path, mode: str) -> Iterator[None]:
    """Hold `root` for a run of `mode` (performance, energy); the kernel lets go of it when the process ends.

    Raises BenchError while another process holds it, or where it keeps results of the other mode.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise BenchError(
            f"{root} cannot be written: {error.strerror}", hint="give another --out, one that you own"
        ) from error
    try:
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError) as error:
            raise BenchError(
                "another bench writes into this folder", hint="wait for it, or give another --out"
            ) from error
        found = mode_of(root)
        if found not in (None, mode):
            raise BenchError(
                f"this folder holds results of the {found} mode, not of {mode}",
                hint="give another --out: batches and single iterations are never mixed",
            )
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Take the file or raise: BlockingIOError on Linux, PermissionError (EACCES) on Windows."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def mode_of(root: Path) -> str | None:
    """Which mode's results lie in `root`; None in a fresh folder. Raises BenchError for a damaged one."""
    try:
        document = json.loads((root / ENVIRONMENT).read_text(encoding="utf-8"))
        return str(document["mode"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{ENVIRONMENT} cannot be read: {error}") from error
