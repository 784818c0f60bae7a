"""What tests wait for, and ports that nobody has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Look until it holds; an error after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the awaited state did not come"
        time.sleep(0.01)


def free_port(host: str = "127.0.0.1") -> int:
    """A UDP port that nobody holds now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
