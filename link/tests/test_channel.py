"""The model in virtual time: what is set is what is achieved, over many seeds, for every setting alone."""

from __future__ import annotations

import random
from statistics import fmean, stdev

import pytest

from pqlink.channel import MS_NS, Channel
from pqlink.settings import Burst, Side

SEEDS = range(20)
PACKETS = 20_000
EVERY_NS = 3_125_000  # 320 Hz
SIZE = 100


def drive(side: Side, seed: int, packets: int = PACKETS, size: int = SIZE) -> list[tuple[int, ...]]:
    """Leaving times of evenly spaced packets, less their arrival times."""
    channel = Channel(random.Random(seed), side)
    return [tuple(t - i * EVERY_NS for t in channel.offer(size, i * EVERY_NS)) for i in range(packets)]


def delays_ms(fates: list[tuple[int, ...]]) -> list[float]:
    return [fate[0] / MS_NS for fate in fates if fate]


def test_nothing_set_changes_nothing() -> None:
    assert set(drive(Side(), 1)) == {(0,)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "side",
    [
        Side(delay_ms=80, jitter_ms=10),
        Side(delay_ms=80, jitter_ms=10, distribution="normal"),
        Side(delay_ms=30, jitter_ms=30),
        Side(delay_ms=30, jitter_ms=10, distribution="normal"),
    ],
)
def test_delay_and_jitter(side: Side, seed: int) -> None:
    got = delays_ms(drive(side, seed))
    assert fmean(got) == pytest.approx(side.expected_delay_ms, abs=5 * side.expected_jitter_ms / PACKETS**0.5)
    assert stdev(got) == pytest.approx(side.expected_jitter_ms, rel=0.025)
    assert min(got) >= side.delay_ms - side.jitter_ms * side.reach - 1e-6
    assert max(got) <= side.delay_ms + side.jitter_ms * side.reach + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss_pct", [0.1, 1.0, 5.0, 50.0])
def test_loss(loss_pct: float, seed: int) -> None:
    lost = 100 * sum(not fate for fate in drive(Side(loss_pct=loss_pct), seed)) / PACKETS
    sd = (loss_pct * (100 - loss_pct) / PACKETS) ** 0.5
    assert lost == pytest.approx(loss_pct, abs=4.5 * sd)


def test_total_loss_lets_nothing_pass() -> None:
    assert set(drive(Side(loss_pct=100), 3)) == {()}


@pytest.mark.parametrize("seed", SEEDS)
def test_burst_loss_has_the_stated_share_and_lengths(seed: int) -> None:
    side = Side(burst_loss=Burst(p_enter_pct=1, p_exit_pct=20, loss_pct=100))
    fates = [bool(f) for f in drive(side, seed, packets=200_000)]
    share = 100 * fates.count(False) / len(fates)
    assert side.expected_loss_pct == pytest.approx(100 / 21)
    sd = (
        side.expected_loss_pct * (100 - side.expected_loss_pct) * side.expected_burst_factor / len(fates)
    ) ** 0.5
    assert share == pytest.approx(side.expected_loss_pct, abs=4 * sd)
    bursts = [len(run) for run in "".join("." if ok else "x" for ok in fates).split(".") if run]
    assert fmean(bursts) == pytest.approx(100 / 20, rel=0.06)


def test_variance_of_a_burst_loss_count_is_the_stated_multiple() -> None:
    side = Side(loss_pct=1, burst_loss=Burst(p_enter_pct=2, p_exit_pct=30, loss_pct=80))
    n, runs = 1_000, 1_500
    fates = [bool(f) for f in drive(side, 11, packets=n * runs)]
    shares = [fates[i * n : (i + 1) * n].count(False) / n for i in range(runs)]
    p = side.expected_loss_pct / 100
    assert fmean(shares) == pytest.approx(p, rel=0.03)
    assert stdev(shares) ** 2 / (p * (1 - p) / n) == pytest.approx(side.expected_burst_factor, rel=0.15)


def test_rate_spaces_packets_and_bounds_the_queue() -> None:
    side = Side(rate_kbps=100, queue_ms=50)
    channel = Channel(random.Random(1), side)
    times = [t for _ in range(100) for t in channel.offer(125, 0)]  # 1,000 bits: 10 ms each
    assert times == [10 * MS_NS * (i + 1) for i in range(6)]
    assert channel.counts.lost_queue == 94
    assert channel.offer(125, 60 * MS_NS) == (70 * MS_NS,)


@pytest.mark.parametrize("seed", SEEDS)
def test_rate_is_what_comes_out_of_an_overloaded_link(seed: int) -> None:
    fates = drive(Side(rate_kbps=128, loss_pct=2), seed)  # 256 kbit/s are offered
    out = sorted(i * EVERY_NS + fate[0] for i, fate in enumerate(fates) if fate)
    kbps = (len(out) - 1) * SIZE * 8 / ((out[-1] - out[0]) / MS_NS)
    assert kbps == pytest.approx(128 * 0.98, rel=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_reorder_and_duplicate_shares(seed: int) -> None:
    side = Side(delay_ms=20, reorder_pct=10, duplicate_pct=3)
    fates = drive(side, seed)
    overtook = sum(fate[0] == 0 for fate in fates)
    assert 100 * overtook / PACKETS == pytest.approx(10, abs=0.95)
    assert 100 * sum(len(f) == 2 for f in fates) / PACKETS == pytest.approx(3, abs=0.55)
    got = delays_ms(fates)
    assert fmean(got) == pytest.approx(side.expected_delay_ms, abs=0.2)
    assert stdev(got) == pytest.approx(side.expected_jitter_ms, rel=0.04)


def test_one_seed_one_fate() -> None:
    side = Side(delay_ms=50, jitter_ms=20, loss_pct=5, duplicate_pct=2, burst_loss=Burst(1, 30, 90))
    assert drive(side, 7) == drive(side, 7)
    assert drive(side, 7) != drive(side, 8)


def test_counts_account_for_every_packet() -> None:
    side = Side(delay_ms=5, loss_pct=3, burst_loss=Burst(1, 20, 80), rate_kbps=200, queue_ms=30)
    channel = Channel(random.Random(5), side)
    for i in range(PACKETS):
        channel.offer(SIZE, i * EVERY_NS)
    c = channel.counts
    assert c.offered == PACKETS == c.lost + c.lost_burst + c.lost_queue + c.delivered
    assert min(c.lost, c.lost_burst, c.lost_queue) > 0
    assert c.offered_bytes == PACKETS * SIZE
