"""Last: lab-down leaves nothing, and coming back from built images is quick."""

from __future__ import annotations

import pytest

from .conftest import BEFORE, residue, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]


def test_port_taken_is_named() -> None:
    """Something of a stranger's on a port of the lab: the message names the port; nothing half-up remains."""
    import socket

    assert run("make", "lab-down", timeout_s=120).code == 0
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", 48081))
        squatter.listen(1)
        up = run("make", "lab-up", timeout_s=300)
    assert up.code != 0
    assert "48081" in up.text
    assert run("make", "lab-down", timeout_s=120).code == 0


def test_down_leaves_nothing() -> None:
    up = run("make", "lab-up", timeout_s=300)
    assert up.code == 0, up.text[-3000:]
    down = run("make", "lab-down", timeout_s=120)
    assert down.code == 0, down.text[-3000:]
    assert BEFORE, "the lab fixture recorded nothing to compare with"
    assert residue() == BEFORE
