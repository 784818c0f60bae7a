"""Random moments and spans of a flight, and what happens around them. All times in seconds of the flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BIN_S: Final = 0.02


@dataclass(frozen=True)
class Spans:
    """Non-negative lengths from `start`; may overlap."""

    start: Floats
    length: Floats

    @property
    def end(self) -> Floats:
        """Where each ends."""
        return self.start + self.length

    def __len__(self) -> int:
        return len(self.start)


def times(rng: np.random.Generator, per_hour: float, duration_s: float) -> Floats:
    """Moments of a Poisson process, ascending."""
    count = rng.poisson(per_hour * duration_s / 3600)
    return np.sort(rng.uniform(0.0, duration_s, count))


def spans(
    rng: np.random.Generator, per_hour: float, length_s: tuple[float, float], duration_s: float
) -> Spans:
    """Spans of log-uniform length at moments of a Poisson process."""
    start = times(rng, per_hour, duration_s)
    length = np.exp(rng.uniform(np.log(length_s[0]), np.log(length_s[1]), len(start)))
    return Spans(start, np.minimum(length, duration_s - start))


def moved_into(rng: np.random.Generator, moments: Floats, hosts: Spans, share: float) -> Floats:
    """The same moments, a share of them moved to somewhere within the spans `hosts`."""
    if not len(hosts) or share <= 0:
        return moments
    chosen = rng.random(len(moments)) < share
    pick = rng.integers(0, len(hosts), len(moments))
    inside = hosts.start[pick] + rng.random(len(moments)) * hosts.length[pick]
    return np.sort(np.where(chosen, inside, moments))


def regular(
    rng: np.random.Generator, start_s: float, end_s: float, period_s: float, jitter_s: float
) -> Floats:
    """Moments each `period_s`, each late by an exponential jitter, as a user-space scheduler is."""
    if end_s <= start_s:
        return np.empty(0)
    first = start_s + rng.random() * period_s
    grid = np.arange(first, end_s, period_s)
    late: Floats = grid + rng.exponential(jitter_s, len(grid))
    return late


def bins_of(moments: Floats, bin_count: int) -> NDArray[np.int64]:
    """Bin of each moment; those outside the flight are at -1."""
    place = np.floor(moments / BIN_S).astype(np.int64)
    return np.where((place >= 0) & (place < bin_count), place, -1)


def add_to(
    counts: NDArray[np.int64], places: NDArray[np.int64], weights: NDArray[np.int64] | None = None
) -> None:
    """Add 1, or `weights`, at the bins `places`; -1 is nowhere."""
    inside = places >= 0
    if weights is None:
        counts += np.bincount(places[inside], minlength=len(counts))
    else:
        summed = np.bincount(
            places[inside], weights=weights[inside].astype(np.float64), minlength=len(counts)
        )
        counts += summed.astype(np.int64)
