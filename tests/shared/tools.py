"""Programs that a test runs; of others': skipped with a reason where missing, but not in the whole check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from waiting import LIMIT_S


def needed(name: str) -> str:
    """The path of a program. Skips, with the reason, where there is none; PQ_REQUIRE_TOOLS makes that a
    failure: the test image has every one of them."""
    found = shutil.which(name)
    if found is None:
        reason = f"there is no {name} here: apt-get install {name}, or ./images/build.sh test"
        if os.environ.get("PQ_REQUIRE_TOOLS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def ended(command: Any, limit_s: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """What the command said and its status, whatever that is; `options` are of subprocess.run."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=limit_s, **{"check": False, **options}
    )


def python_told(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What an interpreter of its own said that runs `code` with our path."""
    path = os.pathsep.join(sys.path)
    child = {**os.environ, "PYTHONPATH": path, **environment}
    return ended([sys.executable, "-c", code], LIMIT_S, stdin=subprocess.DEVNULL, env=child)
