"""Plan, run, check and report measurement campaigns of the post-quantum MAVLink tunnel.

Reading order: scenario (what is asked) → plan (cells) → campaign (drives both agents) → record (one cell's
result from its raw files) → bundle (sealed whole) → verify → analysis → report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pqlab.opened import Opened

__version__ = "0.2.0"


def open(path: str | Path, *, frames: bool | None = None) -> Opened:
    """A bundle's rows for analysis elsewhere: `pqlab.open("results/latest").spans`. See pqlab.opened."""
    from pqlab.opened import Opened

    return Opened(path, frames=frames)
