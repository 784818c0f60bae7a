"""What tests wait for, and ports that nobody has."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Look until it holds; an error after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the awaited state did not come"
        time.sleep(0.01)


_FIRST, _SLICE = 20_000, 1_500
"""Below what kernels give to connections (Linux 32768, Windows 49152), a slice for each test process."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody holds now, UDP or TCP, and that no connection of a test beside this one takes."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    start = _FIRST + int(worker) % 8 * _SLICE
    for port in random.SystemRandom().sample(range(start, start + _SLICE), _SLICE):
        try:
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind((host, port))
        except OSError:
            continue
        return port
    raise AssertionError(f"no free port from {start} on")
