"""Epochs of a flight: which keys live when, and what becomes of a packet of an older epoch.

As the tunnel does it (docs/PROTOCOL.md, sections 6 and 7): the endpoint holds the current and the previous
epoch; the previous one receives for 2 s or three round trips after the switch; the indices of the 16 before
are known as `old_epoch`; everything else is `unknown_index`. A restarted endpoint remembers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.simulate.channel import Weather
from pqdetect.simulate.moments import BIN_S, Floats, Spans, regular, times
from pqdetect.simulate.spec import GroundSpec

RETIRE_S: Final = 2.0
RETIRED_MEMORY: Final = 16
SILENCE_S: Final = 3.0
"""Without an authentic packet for so long the drone dials again."""
CURRENT, LATE, OLD, UNKNOWN = 0, 1, 2, 3


@dataclass(frozen=True)
class Sessions:
    """Epochs in their order."""

    begin_s: Floats
    """(epochs,): from when the endpoint receives on each; the first from the beginning of the flight on."""
    after_restart: NDArray[np.int64]
    """(epochs,): the first epoch that the endpoint still knows of at that time: nothing before a restart."""
    is_blank: NDArray[np.bool_]
    """(epochs,): no epoch at all, but an endpoint that has restarted and has no keys yet."""
    retire_s: float
    down: Spans
    """The endpoint is away: nothing is received, no window comes."""
    setup_end_s: float
    """Before it, handshakes follow one another and no data flows."""

    def at(self, moment: Floats) -> NDArray[np.int64]:
        """Epoch that is current at each moment."""
        found: NDArray[np.int64] = np.searchsorted(self.begin_s, moment, side="right") - 1
        return np.maximum(found, 0)

    def sent_on(self, moment: Floats) -> NDArray[np.int64]:
        """Epoch that the peer sends on, if it knew of the endpoint's state at each moment."""
        found = self.at(moment)
        return np.where(self.is_blank[found], found - 1, found)

    def standing(self, epoch: NDArray[np.int64], moment: Floats) -> NDArray[np.int64]:
        """CURRENT, LATE, OLD or UNKNOWN: how a packet of `epoch` stands when it comes at `moment`."""
        now = self.at(moment)
        behind = now - epoch
        alive = (behind == 1) & (moment <= self.begin_s[now] + self.retire_s)
        known = epoch >= self.after_restart[now]
        standing = np.where(
            behind <= 0, CURRENT, np.where(alive, LATE, np.where(behind <= RETIRED_MEMORY + 1, OLD, UNKNOWN))
        )
        return np.where(known, standing, UNKNOWN)


def sessions(
    rng: np.random.Generator, ground: GroundSpec, state: Weather, rtt_s: float, duration_s: float
) -> Sessions:
    """Draw the epochs: set-up handshakes, rekeys on schedule, redials after silence, restarts."""
    begins: list[float] = [0.0]
    setup_end = min(ground.setup_s, duration_s)
    if setup_end > 0:
        each_s = rtt_s * 3 + rng.uniform(0.004, 0.5)
        begins += list(np.arange(each_s, setup_end, each_s)[:30])
    # A failed handshake is tried again: the period stretches a little.
    rekeys = regular(rng, setup_end + ground.rekey_every_s / 2, duration_s, ground.rekey_every_s, 0.01)
    begins += [moment for moment in rekeys if state.fade[int(moment / BIN_S) % len(state.fade)] < 0.8]
    for begin, end in _silences(state):
        if end - begin > SILENCE_S:
            begins.append(end + rtt_s * 3 + rng.exponential(0.1))
    restart_at = times(rng, ground.restarts, duration_s)
    away = rng.uniform(0.4, 3.0, len(restart_at))
    restarts = Spans(restart_at, np.minimum(away, duration_s - restart_at))
    back = restarts.end + rtt_s * 3 + rng.uniform(0.05, 1.5, len(restart_at))
    marks = [(moment, False) for moment in [*begins, *back.tolist()]]
    marks += [(moment, True) for moment in restarts.end.tolist()]
    ordered = sorted(mark for mark in marks if mark[0] < duration_s)
    blank = np.array([is_blank for _, is_blank in ordered], dtype=np.bool_)
    places = np.arange(len(ordered))
    return Sessions(
        np.array([moment for moment, _ in ordered]),
        np.maximum.accumulate(np.where(blank, places, 0)),
        blank,
        max(RETIRE_S, 3 * rtt_s),
        restarts,
        setup_end,
    )


def _silences(state: Weather) -> list[tuple[float, float]]:
    """Spans in which nothing gets through."""
    dead = np.concatenate([[False], state.loss_in > 0.98, [False]])
    edges = np.flatnonzero(np.diff(dead.astype(np.int8)))
    return [(a * BIN_S, b * BIN_S) for a, b in zip(edges[::2], edges[1::2], strict=True)]
