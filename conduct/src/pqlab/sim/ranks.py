"""Which suites change places when a radio fades instead of losing packets one by one. Ring sim, virtual time.

Every pair of KEM and signature makes its handshakes (the product's own messages, modelled TCP) on three links
of one mean rate, delay and loss: the trace, independent loss, and independent loss with other chances, which
tells how far places move by chance alone. Nothing here is a measurement: the processor's part is invented,
the air decides. The AEAD is left aside: it changes no byte of a handshake.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from pqbase.stats import least_count, quantile7
from pqevidence.analysis.table import Table
from pqlab.sim.air import Air
from pqlab.sim.clock import VirtualClock
from pqlab.sim.end import End, Role
from pqlab.sim.handshakes import handshake
from pqlab.sim.identity import Identities
from pqlab.sim.primitives import SimPrimitives
from pqlink.channel import Channel
from pqlink.settings import Replay, Side
from pqlink.trace import Trace
from pqtunnel.suites import SUITES, Suite

#: queue before the radio, ms: more than any window of a handshake waits
QUEUE_MS: Final = 60_000.0
LINKS: Final = ("trace", "independent", "control")
STATISTICS: Final = {"median": 0.5, "p95": 0.95}
_MS_NS: Final = 1_000_000

#: tokens of KEM and signature
Pair = tuple[str, str]


@dataclass(frozen=True)
class Rank:
    """One pair of KEM and signature by one statistic of its handshakes: seconds and places by link."""

    statistic: str
    kem: str
    sig: str
    air_bytes: int
    trace_s: float
    independent_s: float
    control_s: float
    trace_rank: int
    independent_rank: int
    control_rank: int

    @property
    def moved(self) -> int:
        """Places lost on the trace; negative for gained ones."""
        return self.trace_rank - self.independent_rank


def independent(trace: Trace) -> Side:
    """Constant settings of the trace's mean rate, loss, and delay of what arrives; 0 for the unknown."""
    delay_ns = 0.0
    if trace.delays_ns is not None:
        losses = trace.losses_pct or (0.0,) * len(trace.delays_ns)
        steps = zip(trace.delays_ns, losses, trace.spans_ns, strict=True)
        told = [(delay, stop - start) for delay, loss, (start, stop) in steps if loss < 100]
        delay_ns = sum(delay * long for delay, long in told) / max(1, sum(long for _, long in told))
    rate = trace.mean_rate_bit_s or 0.0
    return Side(
        delay_ms=delay_ns / _MS_NS,
        loss_pct=trace.mean_loss_pct or 0.0,
        rate_kbps=rate / 1000,
        queue_ms=QUEUE_MS if rate else 0.0,
    )


def ranks(trace: Trace, handshakes: int, seed: int) -> list[Rank]:
    """Every pair by median and, from 20 handshakes on, by 95th percentile; the fastest on the trace first.

    handshakes: a pair and link, begun all over the trace.
    """
    identities = Identities.from_seed(seed)
    pairs = {
        (suite.kem.token, suite.sig.token): suite for suite in SUITES.values() if suite.id.startswith("cs-")
    }
    walls: dict[str, dict[Pair, list[float]]] = {link: {} for link in LINKS}
    air_bytes: dict[Pair, int] = {}
    for pair, suite in pairs.items():
        for link in LINKS:
            made = [
                _handshake(suite, trace, link, number, handshakes, identities, seed)
                for number in range(handshakes)
            ]
            walls[link][pair] = [wall_s for wall_s, _ in made]
            if link == "trace":
                air_bytes[pair] = round(_at([size for _, size in made], 0.5))
    return [
        row
        for statistic, share in STATISTICS.items()
        if handshakes >= least_count(share)
        for row in _ranked(statistic, share, walls, air_bytes)
    ]


def _ranked(
    statistic: str, share: float, walls: dict[str, dict[Pair, list[float]]], air_bytes: dict[Pair, int]
) -> Iterator[Rank]:
    found = {link: {p: _at(values, share) for p, values in walls[link].items()} for link in LINKS}
    places = {link: _places(values) for link, values in found.items()}
    for pair in sorted(air_bytes, key=lambda p: places["trace"][p]):
        trace_s, independent_s, control_s = (round(found[link][pair], 4) for link in LINKS)
        first, second, third = (places[link][pair] for link in LINKS)
        yield Rank(statistic, *pair, air_bytes[pair], trace_s, independent_s, control_s, first, second, third)


def _at(values: Sequence[float], share: float) -> float:
    found = quantile7(values, share)
    assert found is not None  # a pair has one handshake at least
    return found


def rank_table(rows: list[Rank]) -> Table:
    """The rows as a CSV has them."""
    columns = (*Rank.__dataclass_fields__, "moved")
    return Table("ranks", columns, [{**asdict(row), "moved": row.moved} for row in rows])


def told(rows: list[Rank]) -> Iterator[str]:
    """What they say, in sentences. A change by one place is not told: neighbours are that close."""
    for statistic in dict.fromkeys(row.statistic for row in rows):
        mine = [row for row in rows if row.statistic == statistic]
        by_chance = max(1, *(abs(row.control_rank - row.independent_rank) for row in mine))
        moved = [row for row in mine if abs(row.moved) > by_chance]
        yield (
            f"by {statistic}: {len(moved)} of {len(mine)} pairs of KEM and signature move by more than "
            f"{by_chance}, which other chances do too"
        )
        for row in sorted(moved, key=lambda row: (-abs(row.moved), row.trace_rank)):
            yield (
                f"  {row.kem} {row.sig}: place {row.independent_rank} → {row.trace_rank}, "
                f"{row.independent_s:.4g} s → {row.trace_s:.4g} s"
            )


def _places(seconds: dict[Pair, float]) -> dict[Pair, int]:
    return {pair: place for place, pair in enumerate(sorted(seconds, key=lambda p: (seconds[p], p)), 1)}


def _handshake(
    suite: Suite, trace: Trace, link: str, number: int, handshakes: int, identities: Identities, seed: int
) -> tuple[float, int]:
    """Seconds from the first packet until the drone is done, and bytes on the air."""
    clock, name = VirtualClock(), f"{suite.kem.token} {suite.sig.token} {number}"
    rng = random.Random(f"ranks {seed} {name}")
    primitives = SimPrimitives(rng, clock.advance)
    ends: dict[Role, End] = {
        "drone": End("drone", clock, primitives, False),
        "gcs": End("gcs", clock, primitives, False),
    }
    length_ms = trace.end_ns // _MS_NS
    begin_ms = length_ms * number // handshakes
    # the way back is half a trace further on: the two do not fade together
    up, down = (
        _channel(trace, link, start_ms % max(1, length_ms), f"ranks {seed} {link} {name} {start_ms}")
        for start_ms in (begin_ms, begin_ms + length_ms // 2)
    )
    air = Air(up, down)
    made = handshake(
        clock,
        suite,
        index=0,
        epoch=0,
        rekey=False,
        ends=ends,
        identities=identities,
        accepted={suite.id},
        min_level=suite.level,
        primitives=primitives,
        rng=rng,
        wire=air,
    )
    return made.drone_ready_ns / 1e9, air.sent_bytes


def _channel(trace: Trace, link: str, start_ms: int, seed: str) -> Channel:
    channel = Channel(random.Random(seed))
    if link == "trace":
        paced = trace.rates_bit_s is not None
        channel.set(
            Side(queue_ms=QUEUE_MS if paced else 0.0, trace=Replay(trace.sha256, "loop", start_ms)), trace
        )
    else:
        channel.set(independent(trace))
    return channel
