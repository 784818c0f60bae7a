"""What the two ends send by themselves: the vehicle's bursts by bin, the ground's packets one by one.

The vehicle's plans are measured (`traffic.json`). The ground's base is what the lab's ground side sends: two
heartbeats a second (ground station and its client), 2 Hz TIMESYNC, now and then an answer; everything else is
an event. Sizes are those of MAVLink 2 frames, sealed (+ 24 bytes).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from pqdetect.simulate.moments import BIN_S, Floats, Spans, add_to, bins_of, regular, spans, times
from pqdetect.simulate.spec import GroundSpec

TRAFFIC_FILE: Final = "traffic.json"
SEALED_BYTES: Final = 24
HEARTBEAT_BYTES: Final = 21 + SEALED_BYTES
TIMESYNC_BYTES: Final = 28 + SEALED_BYTES
DATA, KEEPALIVE, CONTROL = 0, 1, 2
SCHEDULER_S: Final = 0.0015


class _Plan(TypedDict):
    """Traffic of one profile. fixed: messages at a rate of their own (name, Hz, bytes); bursts: (place in the
    cycle, packets, bytes)."""

    rate_hz: float
    fixed: list[tuple[str, float, int]]
    bursts: list[tuple[float, int, int]]


@cache
def _plans() -> dict[str, _Plan]:
    text = resources.files("pqdetect.simulate").joinpath(TRAFFIC_FILE).read_text(encoding="utf-8")
    plans: dict[str, _Plan] = json.loads(text)["profiles"]
    return plans


@dataclass(frozen=True)
class Packets:
    """What the ground sends, ascending in time: (n,) each."""

    sent_s: Floats
    size: NDArray[np.int64]
    """Sealed bytes."""
    kind: NDArray[np.int64]
    """DATA, KEEPALIVE or CONTROL."""


@dataclass(frozen=True)
class Activity:
    """Events that move both directions."""

    missions: Spans
    transfers: Spans
    modes: Floats
    joystick: Spans
    pauses: Spans


def activity(rng: np.random.Generator, spec: GroundSpec, duration_s: float) -> Activity:
    """Draw the events of a flight."""
    return Activity(
        missions=spans(rng, spec.missions, (1.0, 20.0), duration_s),
        transfers=spans(rng, spec.transfers, (3.0, 40.0), duration_s),
        modes=times(rng, spec.modes, duration_s),
        joystick=spans(rng, spec.joystick, (10.0, 240.0), duration_s),
        pauses=spans(rng, spec.pauses, (3.0, 90.0), duration_s),
    )


# ---------------------------------------------------------------------- vehicle → ground


def vehicle_bins(
    rng: np.random.Generator, spec: GroundSpec, events: Activity, start_s: float, bin_count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(packets, sealed bytes) that the vehicle sends in each bin, from `start_s` on."""
    packets, volume = np.zeros(bin_count, dtype=np.int64), np.zeros(bin_count, dtype=np.int64)
    end_s = bin_count * BIN_S
    edges = [start_s, *(t for t in events.modes if t > start_s), end_s]
    profile, rate_hz = spec.tx_profile, spec.tx_rate_hz
    for begin, end in pairwise(edges):
        _bursts(rng, profile, rate_hz, begin, end, packets, volume)
        if rng.random() < 0.4:
            profile = str(rng.choice(list(_plans())))
            rate_hz = min(spec.tx_rate_hz, float(_plans()[profile]["rate_hz"]))
        if rng.random() < 0.3:
            rate_hz = spec.tx_rate_hz * float(rng.choice([0.25, 0.5, 1.0]))
    for begin, length in zip(events.transfers.start, events.transfers.length, strict=True):
        # Parameter values, or blocks of a file: small and many, or large and fewer.
        size, hz = (61, rng.uniform(50, 300)) if rng.random() < 0.7 else (275, rng.uniform(20, 120))
        moments = regular(rng, float(begin), float(begin + length), 1.0 / hz, 0.001)
        _add(moments, size, packets, volume)
    answers = [regular(rng, start_s, end_s, 0.5, SCHEDULER_S)]
    for begin, length in zip(events.missions.start, events.missions.length, strict=True):
        answers.append(regular(rng, float(begin), float(begin + length), 0.08, 0.02))
    _add(np.concatenate(answers), TIMESYNC_BYTES, packets, volume)
    return packets, volume


def _bursts(
    rng: np.random.Generator,
    profile: str,
    rate_hz: float,
    begin: float,
    end: float,
    packets: NDArray[np.int64],
    volume: NDArray[np.int64],
) -> None:
    plan = _plans()[profile]
    bursts = np.array(plan["bursts"], dtype=np.float64)
    fixed_hz = sum(row[1] for row in plan["fixed"])
    cycle_s = bursts[:, 1].sum() / max(0.5, rate_hz - fixed_hz)
    if end <= begin:
        return
    starts = np.arange(begin, end, cycle_s)
    moments = (starts[:, None] + bursts[None, :, 0] * cycle_s).ravel()
    moments += rng.exponential(0.0008, len(moments))
    moments[moments >= end] = -1.0
    places = bins_of(moments, len(packets))
    add_to(packets, places, np.tile(bursts[:, 1].astype(np.int64), len(starts)))
    add_to(volume, places, np.tile(bursts[:, 2].astype(np.int64), len(starts)))
    for _, hz, size in plan["fixed"]:
        _add(regular(rng, begin, end, 1.0 / hz, SCHEDULER_S), int(size), packets, volume)


def _add(moments: Floats, size: int, packets: NDArray[np.int64], volume: NDArray[np.int64]) -> None:
    places = bins_of(moments, len(packets))
    add_to(packets, places)
    add_to(volume, places, np.full(len(places), size, dtype=np.int64))


# ---------------------------------------------------------------------- ground → vehicle


def ground_packets(
    rng: np.random.Generator,
    spec: GroundSpec,
    events: Activity,
    rtt_s: float,
    start_s: float,
    duration_s: float,
) -> Packets:
    """Everything that the ground seals, keepalives included, from `start_s` on."""
    streams: list[tuple[Floats, NDArray[np.int64]]] = []

    def add(moments: Floats, size: int | NDArray[np.int64]) -> None:
        streams.append((moments, np.broadcast_to(np.asarray(size, dtype=np.int64), moments.shape)))

    for _ in range(2):
        add(regular(rng, start_s, duration_s, 1.0, SCHEDULER_S), HEARTBEAT_BYTES)
    add(regular(rng, start_s, duration_s, 0.5, SCHEDULER_S), TIMESYNC_BYTES)
    add(regular(rng, start_s, duration_s, 10.0, SCHEDULER_S), TIMESYNC_BYTES)
    if spec.rtk:
        bases = regular(rng, start_s, duration_s, 1.0, 0.01)
        each = int(rng.integers(2, 8))
        moments = (bases[:, None] + np.sort(rng.uniform(0, 0.03, (len(bases), each)), axis=1)).ravel()
        add(moments, rng.integers(60, 206, len(moments)))
    for begin, length in zip(events.joystick.start, events.joystick.length, strict=True):
        hz = float(rng.choice([5.0, 10.0, 25.0, 50.0]))
        add(
            regular(rng, float(begin), float(begin + length), 1.0 / hz, SCHEDULER_S),
            int(rng.choice([54, 60])),
        )
    for begin, length in zip(events.missions.start, events.missions.length, strict=True):
        # One item for each request: the round trip sets the pace.
        pace_s = rtt_s + rng.uniform(0.01, 0.06)
        add(regular(rng, float(begin), float(begin + length), pace_s, 0.003), 50 + SEALED_BYTES)
    for begin, length in zip(events.transfers.start, events.transfers.length, strict=True):
        pace_s = rtt_s + rng.uniform(0.02, 0.5)
        add(regular(rng, float(begin), float(begin + length), pace_s, 0.005), int(rng.choice([44, 60, 75])))
    for moment in events.modes:
        commands = moment + np.sort(rng.exponential(0.05, int(rng.integers(2, 16))))
        add(commands, int(rng.choice([57, 30 + SEALED_BYTES])))
    moments = np.concatenate([part[0] for part in streams])
    sizes = np.concatenate([part[1] for part in streams])
    sends = (moments >= start_s) & (moments < duration_s)
    for begin, end in zip(events.pauses.start, events.pauses.end, strict=True):
        sends &= (moments < begin) | (moments >= end)
    order = np.argsort(moments[sends], kind="stable")
    moments, sizes = moments[sends][order], sizes[sends][order]
    return _with_keepalives(rng, moments, sizes, start_s, duration_s)


def _with_keepalives(
    rng: np.random.Generator, moments: Floats, sizes: NDArray[np.int64], start_s: float, duration_s: float
) -> Packets:
    """A keepalive each second in which nothing else was sent, at the ten ticks a second of the upkeep."""
    edges = np.concatenate([[start_s], moments, [duration_s]])
    silent = np.flatnonzero(np.diff(edges) > 1.0)
    extra = [
        np.arange(float(edges[place]) + rng.uniform(1.0, 1.1), float(edges[place + 1]), 1.1)
        for place in silent.tolist()
    ]
    keepalives = np.concatenate(extra) if extra else np.empty(0)
    sent = np.concatenate([moments, keepalives])
    size = np.concatenate([sizes, np.full(len(keepalives), SEALED_BYTES, dtype=np.int64)])
    kind = np.concatenate([np.full(len(moments), DATA), np.full(len(keepalives), KEEPALIVE)]).astype(np.int64)
    order = np.argsort(sent, kind="stable")
    return Packets(sent[order], size[order], kind[order])
