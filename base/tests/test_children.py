"""Children end with whoever started them, however he ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PARENT = """
import subprocess, sys, time
from pqbase import children
if sys.argv[1] == "hold":
    children.hold()
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"], stdout=sys.stdout,
    **(children.START if sys.argv[1] == "bind" else {}),
)
if sys.argv[1] == "bind":
    children.bind(child.pid)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("way", ["bind", "hold"])
def test_a_child_ends_with_a_parent_that_is_killed(way: str) -> None:
    if way == "hold" and sys.platform != "win32":
        pytest.skip("children of Linux look after their parent themselves")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, way], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.communicate(timeout=30)  # the pipe ends when the last one who holds it does
