"""The way to the endpoint: which packets arrive, when, damaged or twice; and what a flood leaves of it.

Loss is a probability a bin, made of the standing loss, fades and bursts. A rate limit is a queue that the
peer's packets share with an attack on the same way: it is followed bin by bin, and only where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.simulate.moments import BIN_S, Floats, Spans, spans
from pqdetect.simulate.spec import LinkSpec

HEADERS_BYTES: Final = 28
"""IPv4 and UDP: what the router's rate limit counts beside the payload."""
EDGE_SHARE: Final = 0.2
"""Share of a fade in which it comes, and in which it goes."""


@dataclass(frozen=True)
class Weather:
    """Loss by bin, (bins,) each, and what made it."""

    loss_in: Floats
    loss_out: Floats
    fade: Floats
    """Depth of the fade, 0 to 1."""
    fades: Spans
    bursts: Spans
    stalls: Spans


def weather(rng: np.random.Generator, link: LinkSpec, bin_count: int) -> Weather:
    """Draw fades, bursts and stalls of a flight."""
    duration_s = bin_count * BIN_S
    fades = spans(rng, link.fades, link.fade_s, duration_s)
    bursts = spans(rng, link.bursts, (link.burst_ms[0] / 1e3, link.burst_ms[1] / 1e3), duration_s)
    stalls = spans(rng, link.stalls, link.stall_s, duration_s)
    fade = np.zeros(bin_count)
    for begin, length in zip(fades.start, fades.length, strict=True):
        depth = rng.uniform(0.15, 1.0) if rng.random() < 0.7 else 1.0
        place = slice(int(begin / BIN_S), max(int(begin / BIN_S) + 1, int((begin + length) / BIN_S)))
        fade[place] = np.maximum(fade[place], _shape(len(fade[place])) * depth)
    burst = np.zeros(bin_count)
    for begin, length in zip(bursts.start, bursts.length, strict=True):
        place = slice(int(begin / BIN_S), max(int(begin / BIN_S) + 1, int((begin + length) / BIN_S)))
        burst[place] = rng.uniform(0.5, 1.0)
    standing = link.loss_pct / 100
    other_way = rng.uniform(0.6, 1.0)
    loss_in = 1 - (1 - standing) * (1 - fade) * (1 - burst)
    loss_out = 1 - (1 - standing) * (1 - other_way * fade) * (1 - burst * rng.uniform(0.0, 1.0))
    return Weather(loss_in, loss_out, fade, fades, bursts, stalls)


def _shape(length: int) -> Floats:
    """A trapezoid of this many bins."""
    edge = max(1, int(length * EDGE_SHARE))
    up = np.minimum(1.0, (np.arange(length) + 1) / edge)
    shape: Floats = np.minimum(up, up[::-1])
    return shape


@dataclass(frozen=True)
class Squeeze:
    """What rate limit, router and socket queue take, (bins,) each."""

    link_drop: Floats
    """Share dropped on the shared way."""
    wait_s: Floats
    """Time spent in its queue."""


def squeeze(link: LinkSpec, peer_bytes: Floats, attack_packets: Floats, attack_bytes: Floats) -> Squeeze:
    """What the shared way drops and how long it makes wait, from what is offered to it in each bin.

    `attack_*`: what of the attack takes this way; bytes with IP and UDP headers.
    """
    drop, wait = np.zeros(len(peer_bytes)), np.zeros(len(peer_bytes))
    if link.router_pps:
        limit = link.router_pps * BIN_S
        drop = np.where(attack_packets > limit, 1 - limit / np.maximum(attack_packets, 1.0), 0.0)
    if link.rate_kbps:
        room = link.rate_kbps * 1e3 / 8 * BIN_S
        depth = link.rate_kbps / 8 * link.queue_ms
        offered = peer_bytes + attack_bytes * (1 - drop)
        over, wait = _queue(offered, room, depth)
        drop = 1 - (1 - drop) * (1 - over)
        wait *= BIN_S / room
    return Squeeze(drop, wait)


def _queue(offered: Floats, room: float, depth: float) -> tuple[Floats, Floats]:
    """(share dropped, bytes waiting) of a queue with tail drop, bin by bin."""
    drop, waiting = np.zeros(len(offered)), np.zeros(len(offered))
    busy = np.flatnonzero(offered > room)
    place, reached = 0, -1
    for start in busy.tolist():
        if start <= reached:
            continue
        level, place = 0.0, start
        values = offered
        while place < len(values):
            come = float(values[place])
            level += come
            if level > depth + room:
                drop[place] = min(1.0, (level - depth - room) / come)
                level = depth + room
            level = max(0.0, level - room)
            waiting[place] = level
            if level == 0.0:
                break
            place += 1
        reached = place
    return drop, waiting


@dataclass(frozen=True)
class Arrivals:
    """What reaches the socket of the peer's packets, ascending in time: (n,) each."""

    packet: NDArray[np.int64]
    """Place of the packet among those sent."""
    time_s: Floats
    corrupt: NDArray[np.bool_]
    """Damaged on the way and not noticed before the tunnel."""
    lost: NDArray[np.bool_]
    """(sent,): never arrives undamaged. Not by arrival: by packet sent."""


def carry(
    rng: np.random.Generator,
    link: LinkSpec,
    state: Weather,
    tight: Squeeze,
    host_drop: Floats,
    sent_s: Floats,
) -> Arrivals:
    """Send packets through; `host_drop` is the share that the full socket queue drops, (bins,)."""
    place = np.minimum((sent_s / BIN_S).astype(np.int64), len(state.loss_in) - 1)
    chance = 1 - (1 - state.loss_in[place]) * (1 - tight.link_drop[place]) * (1 - host_drop[place])
    gone = rng.random(len(sent_s)) < chance
    jitter_s = link.jitter_ms / 1e3
    late = rng.gamma(1.0, max(jitter_s, 1e-6), len(sent_s)) * (1 + 3 * state.fade[place])
    arrive = sent_s + link.delay_ms / 1e3 + late + tight.wait_s[place]
    for begin, end in zip(state.stalls.start, state.stalls.end, strict=True):
        held = (arrive >= begin) & (arrive < end)
        arrive[held] = end + np.arange(held.sum()) * 2e-4
    if link.fifo:
        arrive = np.maximum.accumulate(arrive) if len(arrive) else arrive
    slow = rng.random(len(sent_s)) < link.reorder_pct / 100
    arrive = arrive + np.where(slow, rng.uniform(0.002, 0.04, len(sent_s)), 0.0)
    damage = link.corrupt_pct / 100 * (0.1 + 10 * state.fade[place])
    corrupt = ~gone & (rng.random(len(sent_s)) < damage)
    twice = ~gone & ~corrupt & (rng.random(len(sent_s)) < link.duplicate_pct / 100)
    come = np.flatnonzero(~gone)
    again = np.flatnonzero(twice)
    packet = np.concatenate([come, again])
    time_s = np.concatenate([arrive[come], arrive[again] + rng.exponential(0.003, len(again))])
    order = np.argsort(time_s, kind="stable")
    damaged = np.concatenate([corrupt[come], np.zeros(len(again), dtype=np.bool_)])
    return Arrivals(packet[order], time_s[order], damaged[order], gone | corrupt)
