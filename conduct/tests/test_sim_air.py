"""Modelled TCP over the router's channels, and places of suites on a trace: virtual time."""

from __future__ import annotations

import random

import pytest

from pqlab.sim.air import HEAD_BYTES, MS, SEGMENT_BYTES, Air
from pqlab.sim.ranks import Rank, independent, rank_table, ranks, told
from pqlink.achieved import SYN_BYTES
from pqlink.channel import Channel
from pqlink.settings import Burst, Side
from pqlink.trace import parse_trace

TRACE = (
    b"# pqlink trace 1\n# origin: synthetic\nt_ms,rate_bit_s,delay_ms,loss_pct\n"
    b"0,64000,20,0\n9000,64000,,100\n10000,32000,60,0\n20000,,,\n"
)


def air_of(up: Side, down: Side | None = None, seed: int = 1) -> tuple[Air, Channel, Channel]:
    ways = Channel(random.Random(seed), up), Channel(random.Random(seed + 99), down or up)
    return Air(*ways), *ways


def test_a_calm_link_takes_its_delay_and_its_rate() -> None:
    air, up, _ = air_of(Side(delay_ms=20))
    assert air.connect(0) == 40 * MS
    assert air.carry("drone", 100, 40 * MS) == 60 * MS
    assert air.carry("gcs", 5 * SEGMENT_BYTES, 60 * MS) == 80 * MS
    assert up.counts.offered == 1 + 1 + 5  # the SYN, the message, five acknowledgements
    slow, _, _ = air_of(Side(rate_kbps=64, queue_ms=60_000))
    size = 40 * SEGMENT_BYTES
    wire_bits = (size + 40 * HEAD_BYTES) * 8
    assert slow.carry("drone", size, 0) / MS == pytest.approx(wire_bits / 64, rel=0.05)


def test_a_message_longer_than_the_first_window_needs_round_trips() -> None:
    air, _, _ = air_of(Side(delay_ms=50))
    assert air.carry("drone", 10 * SEGMENT_BYTES, 0) == 50 * MS
    assert air_of(Side(delay_ms=50))[0].carry("drone", 11 * SEGMENT_BYTES, 0) == 150 * MS
    assert air_of(Side(delay_ms=50))[0].carry("drone", 31 * SEGMENT_BYTES, 0) == 250 * MS


def test_a_lost_syn_costs_a_second_and_then_two() -> None:
    air, up, _ = air_of(Side(delay_ms=5))
    fates = iter([(), (), (7,)])
    up.offer = lambda size_bytes, now_ns: tuple(now_ns + t * MS for t in next(fates))  # type: ignore[method-assign]
    assert air.connect(0) == (1000 + 2000 + 7 + 5) * MS
    assert air.sent_bytes == 4 * SYN_BYTES


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "side", [Side(delay_ms=30, loss_pct=20), Side(delay_ms=30, burst_loss=Burst(5, 20, 100))]
)
def test_everything_arrives_in_the_end(side: Side, seed: int) -> None:
    air, up, _ = air_of(side, seed=seed)
    at_ns = air.connect(0)
    for size in (1, 1000, 200_000, 5000):
        before_ns, at_ns = at_ns, air.carry("drone", size, at_ns)
        assert at_ns >= before_ns + 30 * MS
    assert up.counts.lost + up.counts.lost_burst > 0


def test_one_lost_segment_is_sent_again_without_the_timer() -> None:
    air, up, _ = air_of(Side(delay_ms=10))
    air.connect(0)
    offer, seen = up.offer, []

    def third_lost(size_bytes: int, now_ns: int) -> tuple[int, ...]:
        seen.append(now_ns)
        return () if len(seen) == 3 else offer(size_bytes, now_ns)

    up.offer = third_lost  # type: ignore[method-assign]
    assert air.carry("drone", 10 * SEGMENT_BYTES, 100 * MS) == 130 * MS, "a round trip later, not 200 ms"


def test_a_dead_link_is_asked_less_and_less_often() -> None:
    air, up, _ = air_of(Side(delay_ms=10))
    offer, times = up.offer, []

    def dead_for_a_minute(size_bytes: int, now_ns: int) -> tuple[int, ...]:
        times.append(now_ns // MS)
        return () if now_ns < 60_000 * MS else offer(size_bytes, now_ns)

    up.offer = dead_for_a_minute  # type: ignore[method-assign]
    assert air.carry("drone", 100, 0) == 63_010 * MS
    assert times == [0, 1000, 3000, 7000, 15_000, 31_000, 63_000]


def test_the_independent_link_has_the_means_of_the_trace() -> None:
    side = independent(parse_trace(TRACE))
    assert (side.rate_kbps, side.loss_pct) == (48, 5)
    assert side.delay_ms == pytest.approx((9 * 20 + 10 * 60) / 19)
    bare = independent(parse_trace(b"# pqlink trace 1\n# origin: synthetic\nt_ms,loss_pct\n0,7\n5,\n"))
    assert (bare.rate_kbps, bare.delay_ms, bare.loss_pct, bare.queue_ms) == (0, 0, 7, 0)


def test_places_on_a_trace_are_a_function_of_trace_and_seed() -> None:
    trace = parse_trace(TRACE)
    rows = ranks(trace, 2, 5)
    assert rows == ranks(trace, 2, 5)
    assert {row.statistic for row in rows} == {"median"}, "a 95th percentile needs 20 values"
    assert [row.trace_rank for row in rows] == list(range(1, len(rows) + 1))
    assert sorted(row.independent_rank for row in rows) == list(range(1, len(rows) + 1))
    assert sum(row.moved for row in rows) == 0
    smallest, largest = (pick(rows, key=lambda row: row.air_bytes) for pick in (min, max))
    assert smallest.trace_s < largest.trace_s and "mceliece" in largest.kem
    assert len(rank_table(rows).csv_text().splitlines()) == len(rows) + 1


def rank(kem: str, trace: int, fixed: int, control: int) -> Rank:
    return Rank("p95", kem, "mldsa44", 1000, 2.0, 1.0, 1.0, trace, fixed, control)


def test_only_what_chance_does_not_do_is_told() -> None:
    rows = [rank("a", 1, 4, 4), rank("b", 2, 1, 1), rank("c", 3, 2, 3), rank("d", 4, 3, 2)]
    assert list(told(rows)) == [
        "by p95: 1 of 4 pairs of KEM and signature move by more than 1, which other chances do too",
        "  a mldsa44: place 4 → 1, 1 s → 2 s",
    ]
