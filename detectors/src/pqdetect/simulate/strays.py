"""Benign datagrams of others at this endpoint: scanners, misdirected hosts, foreign sessions, damaged strays.

None of them is an attack by truth, and together they raise every counter that an attack raises: whoever calls
any refused packet an attack is wrong several times an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pqdetect.simulate.attacks import SEALED_LEAST_BYTES, TYPE_SHARE
from pqdetect.simulate.channel import Weather
from pqdetect.simulate.moments import BIN_S, Floats, Spans, moved_into, regular, times
from pqdetect.simulate.sessions import LATE, OLD, UNKNOWN, Sessions
from pqdetect.simulate.spec import StraySpec
from pqdetect.simulate.tally import Tally


@dataclass(frozen=True)
class Beside:
    """What does not reach the sealed socket, by bin: datagrams to ports that nobody listens on."""

    other_ports: NDArray[np.int64]


def add_strays(
    rng: np.random.Generator, tally: Tally, spec: StraySpec, state: Weather, keys: Sessions
) -> Beside:
    """Draw the strays of a flight and count them."""
    duration_s = len(tally) * BIN_S
    hosts = Spans(
        np.concatenate([state.fades.start, state.bursts.start]),
        np.concatenate([state.fades.length, state.bursts.length]),
    )
    other_ports = np.zeros(len(tally), dtype=np.int64)

    def moments(per_hour: float) -> Floats:
        return moved_into(rng, times(rng, per_hour, duration_s), hosts, spec.coincide)

    for begin in moments(spec.scans):
        other_ports += _scan(rng, tally, float(begin))
    for begin in moments(spec.misdirected):
        _misdirected(rng, tally, float(begin))
    for begin in moments(spec.foreign_sessions):
        _foreign_session(rng, tally, float(begin))
    for begin in moments(spec.stale):
        _stale(rng, tally, float(begin), keys)
    singles = moments(spec.auth_strays)
    # Most come alone, some as a few in a row.
    again = np.repeat(singles, rng.geometric(0.6, len(singles)))
    again = again + rng.exponential(0.5, len(again)) * (rng.random(len(again)) < 0.5)
    _refuse(tally, "auth_failed", again, rng.choice([45, 52, 57, 74], len(again)))
    return Beside(other_ports)


def _scan(rng: np.random.Generator, tally: Tally, begin: float) -> NDArray[np.int64]:
    """A port scanner: some probes to this port, more to others; most probes are short."""
    count = int(np.exp(rng.uniform(np.log(2), np.log(80))))
    moments = begin + np.sort(rng.uniform(0, rng.uniform(0.2, 20.0), count))
    here = rng.random(count) < rng.uniform(0.2, 1.0)
    size = rng.choice([0, 1, 4, 12, 20, 28, 48, 64, 120], count).astype(np.int64)
    typed = (size >= SEALED_LEAST_BYTES) & (rng.random(count) < TYPE_SHARE)
    _refuse(tally, "unknown_index", moments[here & typed], size[here & typed])
    _refuse(tally, "bad_header", moments[here & ~typed], size[here & ~typed])
    elsewhere = np.zeros(len(tally), dtype=np.int64)
    places = (moments[~here] / BIN_S).astype(np.int64)
    np.add.at(elsewhere, places[places < len(tally)], 1)
    return elsewhere


def _misdirected(rng: np.random.Generator, tally: Tally, begin: float) -> None:
    """A vehicle or ground station whose plain MAVLink has the wrong address: first byte 0xFD or 0xFE."""
    length_s, hz = np.exp(rng.uniform(np.log(5), np.log(300))), np.exp(rng.uniform(np.log(0.5), np.log(20)))
    moments = regular(rng, begin, begin + float(length_s), 1.0 / float(hz), 0.002)
    _refuse(tally, "bad_header", moments, rng.choice([17, 21, 28, 40], len(moments)))


def _foreign_session(rng: np.random.Generator, tally: Tally, begin: float) -> None:
    """Sealed packets of another pair: an address was given away anew while it was still in use."""
    length_s, hz = np.exp(rng.uniform(np.log(0.5), np.log(30))), np.exp(rng.uniform(np.log(2), np.log(100)))
    moments = regular(rng, begin, begin + float(length_s), 1.0 / float(hz), 0.002)
    _refuse(tally, "unknown_index", moments, rng.choice([45, 52, 64], len(moments)))


def _stale(rng: np.random.Generator, tally: Tally, begin: float, keys: Sessions) -> None:
    """Old packets once more: replay, old_epoch or unknown_index, by how long ago their epoch ended."""
    moments = begin + np.cumsum(rng.exponential(0.05, int(rng.geometric(0.2))))
    epoch = keys.at(moments[:1])[0] - int(rng.integers(1, 5))
    standing = keys.standing(np.full(len(moments), epoch), moments)
    if epoch < 0:  # of a session before this flight: its index is nobody's
        standing[:] = UNKNOWN
    sizes = np.full(len(moments), 52, dtype=np.int64)
    for field, chosen in (
        ("replay", standing <= LATE),
        ("old_epoch", standing == OLD),
        ("unknown_index", standing == UNKNOWN),
    ):
        _refuse(tally, field, moments[chosen], sizes[chosen])


def _refuse(tally: Tally, field: str, moments: Floats, sizes: NDArray[np.int64]) -> None:
    tally.datagrams(moments, np.asarray(sizes, dtype=np.int64))
    tally.mark(field, moments)
