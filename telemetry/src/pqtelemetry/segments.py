"""Bounded files in segments: `<file>` is written, `<file>.1` is the one before; the oldest is dropped.

When the file has grown to an eighth of the bound, each segment takes the name of the next older one. So at
least seven eighths of the bound are always there, the newest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from pqbase.patience import patiently

SEGMENTS: Final = 8
MOST_BYTES: Final = 128 * 1024 * 1024
"""An hour's session at the lab's 25 kB/s (10 Hz), or of 1 kHz power (24 kB/s), and a quarter more."""
_SHARE: Final = 4


def default_bound_bytes(path: Path) -> int:
    """MOST_BYTES, or a quarter of a smaller disk: two such files in a board's small /run leave it room.

    A folder that is not there counts as large; opening the file says so.
    """
    try:
        total_bytes = shutil.disk_usage(path.parent).total
    except OSError:
        return MOST_BYTES
    return min(MOST_BYTES, total_bytes // _SHARE)


def older(path: Path, steps: int = 1) -> Path:
    """The segment that was written `steps` before this file."""
    return path.with_name(f"{path.name}.{steps}") if steps else path


def oldest_first(path: Path) -> list[Path]:
    """Names of all segments, whether they are there or not."""
    return [older(path, steps) for steps in range(SEGMENTS - 1, -1, -1)]


def push(path: Path, beside: Callable[[Path], Path] | None = None) -> None:
    """Give every segment the name of the next older one; `path` is free then. `beside` names the file that
    goes with a segment wherever it goes. Raises OSError."""
    names = oldest_first(path)
    for target, source in pairwise(names):
        if not source.exists():
            continue
        _rename(source, target)
        if beside is not None:
            beside(target).unlink(missing_ok=True)
            if beside(source).exists():
                _rename(beside(source), beside(target))


def _rename(source: Path, target: Path) -> None:
    """Replace `target`; the agent may be reading either of them."""
    patiently(lambda: source.replace(target))
