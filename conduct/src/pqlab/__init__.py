"""Plan, run and watch measurement campaigns of the post-quantum MAVLink tunnel: the `pqlab` command.

What a bundle holds and says is pqevidence's. Reading order: inventory (the hosts) → campaign (drives both
agents, cell by cell) → sim (the same in virtual time) → doctor, setup, live → cli.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pqevidence import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from pqevidence.opened import Opened


def open(path: str | Path, *, frames: bool | None = None) -> Opened:
    """A bundle's rows for analysis elsewhere: `pqlab.open("results/latest").spans`. See pqevidence.opened."""
    from pqevidence.opened import Opened

    return Opened(path, frames=frames)
