"""Ground truth of many recordings laid end to end, window by window.

All metrics work on this one shape, whether the recordings were simulated or taken from the running lab.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

WINDOW_S = 0.6
# An alarm that begins this long after an attack's end is neither a detection nor a false one: the last forged
# datagrams may still lie in a queue, and features reach back.
GRACE_WINDOWS = 5

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Episode:
    """One visible attack. ``first`` and ``last`` are windows of the whole array, both inside it."""

    scenario: int
    first: int
    last: int
    kind: str
    rate_pps: float
    profile: str
    # Mean two-sided loss over the episode, 0..1; None where no ground truth of it exists.
    loss: float | None
    # From the first forged datagram to the end of window ``first``.
    lead_s: float


@dataclass(frozen=True)
class Truth:
    """Labels of all windows, and the visible episodes in them."""

    scenario_ids: tuple[str, ...]
    scenario: NDArray[np.int32]  # (K,): index into scenario_ids
    starts: Flags  # (K,): first window of a recording
    attack: Flags  # (K,): a visible attack
    hidden: Flags  # (K,): an attack of which nothing reached the endpoint, or of which nobody knows whether
    degraded: Flags  # (K,)
    degraded_known: Flags  # (K,): enough was sent for the share lost to be a figure
    episodes: tuple[Episode, ...]

    @property
    def hours(self) -> float:
        """Length of all recordings."""
        return len(self.attack) * WINDOW_S / 3600

    @cached_property
    def near_attack(self) -> Flags:
        """Windows of attacks, seen or hidden, and of the grace time after them, within the same recording."""
        return self._with_grace(self.attack | self.hidden)

    @cached_property
    def near_degraded(self) -> Flags:
        """Windows of degradation and of the grace time after them."""
        return self._with_grace(self.degraded)

    @cached_property
    def attack_free_hours(self) -> float:
        """Time outside attacks and their grace time."""
        return float(np.count_nonzero(~self.near_attack)) * WINDOW_S / 3600

    def _with_grace(self, marked: Flags) -> Flags:
        index = np.arange(len(marked))
        first = np.maximum.accumulate(np.where(self.starts, index, 0))
        latest = np.maximum.accumulate(np.where(marked, index, -1))
        return (latest >= first) & (index - latest <= GRACE_WINDOWS)


def runs(marked: Flags, starts: Flags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last window of each run of marks; a run ends with its recording."""
    before = np.concatenate(([False], marked[:-1])) & ~starts
    after = np.concatenate((marked[1:] & ~starts[1:], [False]))
    return np.flatnonzero(marked & ~before), np.flatnonzero(marked & ~after)
