"""Probes over loopback: what a late prober, a held port and a silent end are booked as."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator

import pytest

import pqlink.probe as probe
from pqlink.errors import LinkError, RequestError
from pqlink.probe import Echo, ProbePlan, run_probe

HERE = "127.0.0.1"
STALL_S = 1.3


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo(HERE, time.monotonic() + 110)
    yield echo
    echo.close()


def plan(kind: str, count: int = 60) -> ProbePlan:
    return ProbePlan(kind, HERE, HERE, count, rate_hz=200.0, size_bytes=64, patience_s=30.0)


def test_every_datagram_comes_back_once(echo: Echo) -> None:
    found = run_probe(plan("udp"))
    assert (found["sent"], found["returned"], found["doubles"]) == (60, 60, 0)
    assert 0 < found["up"]["delay_p50_ms"] < 100
    assert echo.close() == 60


def test_every_attempt_is_answered_and_timed(echo: Echo) -> None:
    found = run_probe(plan("tcp"))
    assert (found["n"], found["lost"]) == (60, 0)
    assert 0 < found["rtt_min_ms"] <= found["rtt_p50_ms"] < 100


def test_a_late_prober_calls_nothing_lost_or_slow(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away for longer than an attempt may take: the kernel answered meanwhile, and its times are kept."""
    paced = probe._paced

    def stalling(given: ProbePlan) -> Iterator[tuple[int, float] | None]:
        for number, step in enumerate(paced(given)):
            if number == 30:
                time.sleep(STALL_S)
            yield step

    monkeypatch.setattr(probe, "_paced", stalling)
    found = run_probe(plan("tcp"))
    assert STALL_S > probe.TCP_LIMIT_S
    assert (found["n"], found["lost"]) == (60, 0)
    assert found["rtt_max_ms"] < 1000 * STALL_S / 2


def test_local_ports_are_used_in_turn_and_held_ones_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # the last of them: probes of tests that run beside this one take the first
    ports = probe._LOCAL_PORTS[-4:]
    monkeypatch.setattr(probe, "_ports", itertools.cycle(ports))
    with socket.socket() as holder:
        holder.bind((HERE, ports[1]))
        taken = [probe._bound(HERE) for _ in range(3)]
        used = [sock.getsockname()[1] for sock in taken]
    for sock in taken:
        sock.close()
    assert used == [ports[i] for i in (0, 2, 3)]


def test_nobody_over_there_is_an_error_and_not_a_loss() -> None:
    with pytest.raises(LinkError, match=r"60 of 60 connection attempts"):
        run_probe(plan("tcp"))


def test_a_plan_outside_its_limits_is_refused() -> None:
    with pytest.raises(RequestError, match="limits"):
        ProbePlan.parse({"kind": "tcp", "count": 0, "rate_hz": 1}, HERE, HERE)
