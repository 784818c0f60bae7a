"""A place where something half made lies until it is whole, held by one process at a time.

What a killed process left there is cleared by the next one, told by a lock that dies with its holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pqevidence.errors import LabError


@contextmanager
def half_made(target: Path) -> Iterator[Path]:
    """An empty hidden folder beside `target`, gone when the block is left, whatever ends it.

    Raises LabError `exists` when the target is there, `busy` when another process makes it now.
    """
    if os.path.lexists(target):
        raise LabError(
            "exists",
            f"{target.name} is there already",
            "what is there is never overwritten",
            "move it away, or name another place: --out",
        )
    folder = target.parent / f".{target.name}.half"
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LabError(
                "busy", f"{target.name} is being made now", "another pqlab holds it", "wait for it to end"
            ) from error
        _empty(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
