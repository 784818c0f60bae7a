"""What comes out of a replay against what the trace holds, in virtual time: loss runs, rate, delay."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from pqlink.capture import Clocks, from_captures
from pqlink.channel import MS_NS, Channel
from pqlink.fidelity import describe, fades_ms
from pqlink.router import generator
from pqlink.settings import Burst, Replay, Side
from pqlink.synthetic import State, gilbert_elliott
from pqlink.trace import Trace, parse_trace

SEEDS = range(5)
PACKETS = 25_000
#: what the lab asks of a replay
KS_MOST, RATE_MOST = 0.05, 0.02


def loss_runs(arrived: Iterable[bool]) -> list[int]:
    """Lengths of the runs of lost packets, in packets, in their order."""
    runs, length = [], 0
    for came in arrived:
        if not came:
            length += 1
        elif length:
            runs.append(length)
            length = 0
    return [*runs, length] if length else runs


def ks_distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Greatest distance of two empirical distributions, 0 … 1 (Kolmogorov-Smirnov). Both hold a value."""
    a, b = sorted(one), sorted(other)
    return max(abs(bisect_right(a, x) / len(a) - bisect_right(b, x) / len(b)) for x in {*a, *b})


def player(trace: Trace, **settings: float) -> Channel:
    channel = Channel(generator(1, "up"))
    channel.set(Side(trace=Replay(trace.sha256), **settings), trace)  # type: ignore[arg-type]
    return channel


def fading(seed: int, length_ms: int = 300_000) -> Trace:
    """Two states, both rates and delays known: 64 kbit/s and 20 ms, 9.6 kbit/s, 90 ms and all lost."""
    text = gilbert_elliott(
        State(900, "0", "64000", "20"),
        State(120, "100", "9600", "90"),
        length_ms=length_ms,
        slot_ms=5,
        seed=seed,
        meta={},
    )
    return parse_trace(text.encode())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_captured_link_is_replayed_packet_by_packet(seed: int) -> None:
    """A channel with bursts is recorded at both ends; its trace does the same to the same packets."""
    rng = random.Random(seed)
    real = Channel(
        random.Random(seed), Side(delay_ms=40, jitter_ms=15, loss_pct=0.5, burst_loss=Burst(1, 25, 90))
    )
    sent, received, now_ns = [], [], 1_700_000_000_000_000_000
    for number in range(PACKETS):
        now_ns += rng.randrange(1, 6 * MS_NS)
        sent.append((number, now_ns))
        received += [(number, t_ns) for t_ns in real.offer(100, now_ns)]
    meta = {"origin": "synthetic", "source": "a test"}
    made = from_captures(sent, received, Clocks(one=True), rate_bit_s=None, meta=meta)
    assert made.packets > 20_000 and made.strangers == made.doubles == 0
    trace = parse_trace(made.text.encode())
    arrived = dict(received)
    inside = [(n, t) for n, t in sent if n >= received_first(sent, arrived)][: made.packets]
    channel, zero_ns = player(trace), inside[0][1]
    fates = {n: channel.offer(100, t - zero_ns) for n, t in inside}
    assert [bool(fates[n]) for n, _ in inside] == [n in arrived for n, _ in inside]
    measured = loss_runs(n in arrived for n, _ in inside)
    assert ks_distance(loss_runs(bool(fates[n]) for n, _ in inside), measured) == 0
    # delays to the nanosecond, unless a packet had overtaken: a replayed one never does
    last_ns = 0
    for number, _ in inside:
        if number in arrived:
            last_ns = max(last_ns, arrived[number] - zero_ns)
            assert fates[number] == (last_ns,)


def received_first(sent: list[tuple[int, int]], arrived: dict[int, int]) -> int:
    return next(n for n, _ in sent if n in arrived)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("every_ms", [1.0, 3.125, 10.0])
def test_other_packets_meet_fades_of_the_same_lengths(seed: int, every_ms: float) -> None:
    """Packets of a session are sent at times of their own: their loss runs are those of the trace at these
    times, and last as long as its fades."""
    text = gilbert_elliott(
        State(900, "0"), State(120, "100"), length_ms=300_000, slot_ms=5, seed=seed, meta={}
    )
    trace, every_ns, rng = parse_trace(text.encode()), round(every_ms * MS_NS), random.Random(seed)
    assert trace.losses_pct is not None
    times = [begin_ns + rng.randrange(every_ns) for begin_ns in range(0, trace.end_ns - every_ns, every_ns)]
    assert len(times) > 20_000
    channel = player(trace)
    runs = loss_runs(bool(channel.offer(100, t)) for t in times)
    assert ks_distance(runs, loss_runs(trace.losses_pct[trace.index_at(t)] < 100 for t in times)) <= KS_MOST
    if every_ms == 1:  # in steps of 25 ms, of which a packet more or less makes no other
        replayed, told = ([round(x / 25) for x in lengths] for lengths in (runs, fades_ms(trace)))
        assert ks_distance(replayed, told) <= KS_MOST


@pytest.mark.parametrize("seed", SEEDS)
def test_an_overloaded_link_delivers_the_rate_of_the_trace(seed: int) -> None:
    """Twice as much is offered as it carries: what is sent is the integral of the rate, step by step."""
    text = gilbert_elliott(
        State(900, "0", "128000", "20"),
        State(120, "0", "19200", "90"),
        length_ms=300_000,
        slot_ms=5,
        seed=seed,
        meta={},
    )
    trace = parse_trace(text.encode())
    size, channel, now_ns, out_bits = 100, player(trace, queue_ms=50), 0, 0
    every_ns = round(size * 8 / (2 * (trace.mean_rate_bit_s or 0)) * 1e9)
    offered = delivered = 0
    while now_ns < trace.end_ns:
        offered += 1
        if times := channel.offer(size, now_ns):
            delivered += 1
            out_bits += size * 8 * (times[0] < trace.end_ns)
        now_ns += every_ns
    assert offered >= 20_000 and channel.counts.lost_queue > 0
    rate = out_bits / (trace.end_ns / 1e9)
    assert rate == pytest.approx(trace.mean_rate_bit_s, rel=RATE_MOST)


@pytest.mark.parametrize("seed", SEEDS)
def test_rate_with_fades_is_what_the_trace_lets_through(seed: int) -> None:
    """Rate and loss together: delivered bits are those sent outside of the fades."""
    trace = fading(seed, length_ms=1_200_000)
    assert trace.rates_bit_s is not None and trace.losses_pct is not None
    spans = zip(trace.rates_bit_s, trace.losses_pct, trace.spans_ns, strict=True)
    due = sum(rate * (b - a) for rate, loss, (a, b) in spans if loss < 100) / trace.end_ns
    size, channel, bits = 60, player(trace, queue_ms=200), 0
    every_ns = round(size * 8 / 80_000 * 1e9)
    for now_ns in range(0, trace.end_ns, every_ns):
        bits += size * 8 * bool(channel.offer(size, now_ns))
    assert channel.counts.offered >= 20_000
    assert bits / (trace.end_ns / 1e9) == pytest.approx(due, rel=RATE_MOST)


def test_packets_of_a_replay_leave_in_order() -> None:
    channel = player(fading(3), queue_ms=500)
    times = [t for i in range(20_000) for t in channel.offer(50, i * 9 * MS_NS)]
    assert all(a <= b for a, b in pairwise(times))


# ---------------------------------------------------------------------- the measures themselves


@pytest.mark.parametrize(
    ("text", "runs"),
    [("", []), ("....", []), ("x", [1]), ("..xx.x", [2, 1]), ("xxx..", [3]), (".xx.xx", [2, 2])],
)
def test_loss_runs(text: str, runs: list[int]) -> None:
    assert loss_runs(c == "." for c in text) == runs


def test_ks_distance() -> None:
    assert ks_distance([1, 2, 3], [3, 2, 1]) == 0
    assert ks_distance([1, 1, 1], [2, 2, 2]) == 1
    assert ks_distance([1, 2], [2, 2]) == 0.5
    assert ks_distance([1], [1, 1, 1, 5]) == 0.25


def test_the_distance_sees_independent_loss() -> None:
    """The measure is no rubber stamp: independent loss of the same mean is far from the trace."""
    trace, rng = fading(1), random.Random(1)
    arrived = [
        trace.losses_pct is not None and trace.losses_pct[trace.index_at(i * MS_NS)] < 100
        for i in range(300_000)
    ]
    mean = arrived.count(False) / len(arrived)
    independent = loss_runs(rng.random() >= mean for _ in arrived)
    assert ks_distance(independent, loss_runs(arrived)) > 0.8


def test_a_trace_in_figures() -> None:
    trace = parse_trace(
        b"# pqlink trace 1\n# origin: synthetic\nt_ms,delay_ms,loss_pct\n"
        b"0,5,0\n10,,100\n15,99,100\n30,8,10\n40,,100\n41,,\n"
    )
    told = describe(trace)
    assert told["fades_count"] == 2 and fades_ms(trace) == [20, 1]
    assert (told["fade_mean_ms"], told["fade_max_ms"], told["length_s"]) == (10.5, 20, 0.041)
    assert (told["delay_min_ms"], told["delay_max_ms"], told["rate_mean_bit_s"]) == (5, 8, None)
    assert told["loss_mean_pct"] == pytest.approx(100 * 22 / 41, abs=1e-4)
