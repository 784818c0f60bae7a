"""What tests wait for, and ports that nobody has."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable

LIMIT_S = 60.0
"""How long a test waits for what must come: of sockets, events, threads and processes alike.

It bounds a hang and judges no time: every thread of a test may be stalled for seconds at any point, by an
emulated processor or by what runs beside it. Below what `pytest --timeout` grants a whole test."""


def wait_until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    """Look until it holds; False when it still does not after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        # what came while this thread was stalled has come
        if time.monotonic() >= end:
            return condition()
        time.sleep(0.01)
    return True


def wait_for(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Look until it holds; an error after `limit_s`."""
    assert wait_until(condition, limit_s), "the awaited state did not come"


OUTSTANDING = 64
"""Datagrams under way at most where none may be lost: a socket's receive buffer holds 277 small ones, and a
sender that was stalled for a second catches up with hundreds."""


def hold_back(outstanding: Callable[[], int]) -> None:
    """Return once fewer than OUTSTANDING datagrams are under way; an error where they stay away."""
    if outstanding() >= OUTSTANDING:
        wait_for(lambda: outstanding() < OUTSTANDING)


def unstalled_ns(step_ns: int = 10_000_000) -> Callable[[], int]:
    """A clock, ns, that stands still while its reader does: from look to look it moves 10 ms at most."""
    shown = last = time.monotonic_ns()

    def look() -> int:
        nonlocal last, shown
        now = time.monotonic_ns()
        shown += min(now - last, step_ns)
        last = now
        return shown

    return look


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
