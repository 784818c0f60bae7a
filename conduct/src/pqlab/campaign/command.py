"""A command that is run to its end, and what it said."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def ended(
    command: Sequence[str], limit_s: float, *, as_one: bool = False
) -> subprocess.CompletedProcess[str]:
    """It has nothing to read; `as_one`: its complaints stand in its output, as a terminal shows them. Raises
    OSError where it cannot be run, subprocess.TimeoutExpired where it goes on."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if as_one else subprocess.PIPE,
        text=True,
        timeout=limit_s,
        check=False,
    )
