"""What differs by platform: how children end with their parent, files in use, ports, whose an address is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pqbase import patience
from pqbase.net import claim, holds, interface_of
from waiting import LIMIT_S

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
        [sys.executable, "-c", PARENT, way],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.communicate(timeout=LIMIT_S)  # the pipe ends when the last one who holds it does


def test_a_file_in_use_is_tried_again_on_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    tries: list[int] = []

    def third_time() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise PermissionError(13, "in use")
        return "done"

    assert patience.patiently(third_time, platform="win32") == "done"
    with pytest.raises(PermissionError):
        tries.clear()
        patience.patiently(third_time, platform="linux")
    assert len(tries) == 1

    def never() -> None:
        tries.append(1)
        raise PermissionError(13, "in use")

    tries.clear()
    with pytest.raises(PermissionError):
        patience.patiently(never, platform="win32")
    assert len(tries) == patience.TRIES


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_claimed_port_is_shared_with_nobody(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as ours, socket.socket(socket.AF_INET, kind) as theirs:
        for sock in (ours, theirs):
            claim(sock)
        ours.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            ours.listen()
        with pytest.raises(OSError):
            theirs.bind(ours.getsockname())


def test_an_address_is_ours_or_not() -> None:
    assert holds("127.0.0.1") and not holds("198.18.77.77")


@pytest.mark.linux("Windows has no such question")
def test_an_interface_is_found_by_its_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("198.18.77.77") is None
