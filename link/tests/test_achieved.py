"""Set against achieved: a probe of the model itself is accepted, one of another link is not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pqlink.achieved import check_tcp, check_udp, longest_ms, probe_rate_hz, tcp_resolvable
from pqlink.channel import Channel
from pqlink.figures import loss_figures, time_figures
from pqlink.settings import NOTHING, Burst, Side

SIZE = 64
SIDES = [
    NOTHING,
    Side(delay_ms=80, jitter_ms=10, loss_pct=5),
    Side(delay_ms=80, jitter_ms=10, distribution="normal", loss_pct=1),
    Side(delay_ms=25, jitter_ms=5, burst_loss=Burst(1, 25, 90), rate_kbps=250, queue_ms=100),
    Side(delay_ms=40, reorder_pct=10, duplicate_pct=5, loss_pct=10),
]


def probed(side: Side, seed: int, n: int = 400) -> dict[str, Any]:
    """What a UDP probe through the model would report."""
    channel = Channel(random.Random(seed), side)
    every_ns = round(1e9 / probe_rate_hz(side, side, SIZE + 28, 400))
    delays = [fate[0] - i * every_ns for i in range(n) if (fate := channel.offer(SIZE + 28, i * every_ns))]
    return {**loss_figures(n, len(delays)), **time_figures(delays, "delay")}


@pytest.mark.parametrize("side", SIDES)
def test_the_model_is_what_was_set(side: Side) -> None:
    refused = [found for seed in range(200) if (found := check_udp("up", side, probed(side, seed), SIZE))]
    assert refused == []


@pytest.mark.parametrize(
    ("was", "said", "word"),
    [
        (NOTHING, Side(delay_ms=80), "delay"),
        (Side(delay_ms=80), Side(delay_ms=100), "delay"),
        (Side(delay_ms=80, jitter_ms=10), Side(delay_ms=80, jitter_ms=30), "jitter"),
        (Side(delay_ms=80), Side(delay_ms=80, jitter_ms=30), "jitter"),
        (Side(loss_pct=5), Side(loss_pct=15), "loss"),
        (NOTHING, Side(loss_pct=10), "loss"),
        (Side(loss_pct=3), NOTHING, "loss"),
    ],
)
def test_another_link_is_refused(was: Side, said: Side, word: str) -> None:
    found = check_udp("up", said, probed(was, 1), SIZE)
    assert any(word in text for text in found), found


def test_tcp_sees_both_directions() -> None:
    side = Side(delay_ms=80, jitter_ms=10, loss_pct=5)
    good = {**loss_figures(4000, 3610), "rtt_mean_ms": 161.0, "rtt_sd_ms": 8.2}
    assert check_tcp(side, side, good) == []
    assert any("loss" in text for text in check_tcp(side, side, {**good, **loss_figures(4000, 4000)}))
    assert any("round trip" in text for text in check_tcp(side, side, {**good, "rtt_mean_ms": 81.0}))


def test_a_blocked_link_and_no_probe() -> None:
    blocked = {**loss_figures(100, 0), **time_figures([], "delay")}
    assert check_udp("up", Side(loss_pct=100), blocked, SIZE) == []
    assert check_udp("up", NOTHING, blocked, SIZE) != []
    assert check_udp("up", NOTHING, {**loss_figures(0, 0), **time_figures([], "delay")}, SIZE) != []


def test_probes_do_not_fill_the_link_they_measure() -> None:
    slow = Side(rate_kbps=64)
    rate_hz = probe_rate_hz(slow, NOTHING, 92, 400)
    assert rate_hz * 92 * 8 / 1000 == pytest.approx(0.3 * 64)
    assert probe_rate_hz(NOTHING, NOTHING, 92, 400) == 400


def test_long_round_trips_are_not_resolvable_by_tcp() -> None:
    assert tcp_resolvable(Side(delay_ms=80, jitter_ms=10), Side(delay_ms=80, jitter_ms=10))
    assert not tcp_resolvable(Side(delay_ms=300), Side(delay_ms=600))
    assert longest_ms(Side(delay_ms=10, jitter_ms=2, rate_kbps=8, queue_ms=500)) == 512
