"""What a stream of decisions is worth: episodes found and how late, alarms without a cause, window ranking.

Definitions (docs/DETECTORS.md, "How it is measured"):

- A *false alarm* is an alarm whose first window lies outside every attack and its grace time.
- An episode is *detected* at its first window with a standing alarm that is no false one. The delay is from
  the first forged datagram to the end of that window, where the verdict is made; a missed one is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pqdetect.evaluation.intervals import poisson_lower, poisson_upper, wilson
from pqdetect.evaluation.results import Degraded, Rate, Share
from pqdetect.evaluation.truth import GRACE_WINDOWS, WINDOW_S, Episode, Flags, Truth, runs

# A stretch of degradation this long is no accident of counting a handful of packets: 3 s.
LONG_WINDOWS = 5


@dataclass(frozen=True)
class Outcome:
    """What one decided stream did; delays in seconds, one an episode, infinite where it was missed."""

    delays_s: NDArray[np.float64]
    false_alarms: int
    attack_free_hours: float
    # Share of the attack-free time with a standing alarm.
    alarm_time_share: float

    @property
    def false_per_hour(self) -> float:
        """False alarms an attack-free hour; infinite where there was no such hour."""
        return self.false_alarms / self.attack_free_hours if self.attack_free_hours else math.inf


def outcome(alarms: Flags, truth: Truth) -> Outcome:
    """Hold decisions against the truth."""
    index = np.arange(len(alarms))
    near = truth.near_attack
    before = np.concatenate(([False], alarms[:-1])) & ~truth.starts
    onset = alarms & ~before
    false_alarms = int(np.count_nonzero(onset & ~near))
    began = np.maximum.accumulate(np.where(onset, index, 0))
    good = alarms & near[began]
    count = len(alarms)
    following = np.minimum.accumulate(np.where(good, index, count)[::-1])[::-1]
    delays = np.full(len(truth.episodes), math.inf)
    for number, episode in enumerate(truth.episodes):
        found = int(following[episode.first])
        if found <= episode.last:
            delays[number] = episode.lead_s + (found - episode.first) * WINDOW_S
    free = ~near
    standing = float(np.count_nonzero(alarms & free)) / max(int(np.count_nonzero(free)), 1)
    return Outcome(delays, false_alarms, truth.attack_free_hours, standing)


def proportion(successes: int, trials: int) -> Share:
    """A share with its Wilson interval, or null with the reason."""
    bounds = wilson(successes, trials)
    if bounds is None:
        return {"value": None, "reason": "no such episode in this set", "n": 0}
    low, high = (round(bound, 5) for bound in bounds)
    return {"value": round(successes / trials, 5), "low": low, "high": high, "hits": successes, "n": trials}


def recall(result: Outcome, chosen: NDArray[np.bool_]) -> Share:
    """Share of the chosen episodes that were detected."""
    return proportion(
        int(np.count_nonzero(np.isfinite(result.delays_s[chosen]))), int(np.count_nonzero(chosen))
    )


def rate(count: int, hours: float) -> Rate:
    """Events an hour with exact Poisson bounds (each one-sided, 95 %)."""
    if hours <= 0:
        return {"value": None, "reason": "no attack-free time in this set", "count": count, "hours": 0.0}
    return {
        "value": round(count / hours, 4),
        "low": round(poisson_lower(count) / hours, 4),
        "high": round(poisson_upper(count) / hours, 4),
        "count": count,
        "hours": round(hours, 2),
    }


def detected_within_s(delays_s: NDArray[np.float64], share: float) -> float | None:
    """The least delay within which ``share`` of all episodes was detected; None where so many never were.

    A count of detections and no interpolated quantile: a missed episode has no delay to interpolate towards.
    """
    if len(delays_s) == 0:
        return None
    value = float(np.sort(delays_s)[max(math.ceil(share * len(delays_s)) - 1, 0)])
    return round(value, 3) if math.isfinite(value) else None


def auroc(scores: NDArray[np.float64], positive: Flags) -> float | None:
    """Probability that a marked window scores above an unmarked one, ties half; None without both kinds."""
    hits, others = int(np.count_nonzero(positive)), int(np.count_nonzero(~positive))
    if not hits or not others:
        return None
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    del values
    upto = np.cumsum(counts)
    mid_rank = upto - (counts - 1) / 2.0
    return float((mid_rank[inverse][positive].sum() - hits * (hits + 1) / 2.0) / (hits * float(others)))


def episode_masks(episodes: tuple[Episode, ...], loss_floor: float = 0.3) -> tuple[Flags, Flags]:
    """All episodes; those with a two-sided loss of at least ``loss_floor``."""
    lossy = [e.loss is not None and e.loss >= loss_floor for e in episodes]
    return np.ones(len(episodes), dtype=np.bool_), np.array(lossy, dtype=np.bool_)


def degraded_report(alarms: Flags, truth: Truth) -> Degraded:
    """DEGRADED by stretches and by windows.

    A stretch of truth is found when an alarm stands in it or within the grace time after it; an alarm is
    right when it touches a stretch or its grace time. Windows without a figure of the loss count on neither
    side.
    """
    first, last = runs(truth.degraded, truth.starts)
    alarms = alarms & truth.degraded_known
    near = truth.near_degraded
    alarm_first, alarm_last = runs(alarms, truth.starts)
    hits = np.concatenate(([0], np.cumsum(alarms & near)))
    # Up to the end of the grace time, which ends with the recording.
    count = len(alarms)
    index = np.arange(count)
    next_start = np.minimum.accumulate(np.where(truth.starts, index, count)[::-1])[::-1]
    limit = np.concatenate((next_start[1:], [count]))
    ends = np.minimum(last + 1 + GRACE_WINDOWS, limit[last])
    found = hits[ends] > hits[first]
    long = last - first + 1 >= LONG_WINDOWS
    right = int(np.count_nonzero(hits[alarm_last + 1] - hits[alarm_first])) if len(alarm_first) else 0
    true_windows = int(np.count_nonzero(truth.degraded))
    alarm_windows = int(np.count_nonzero(alarms))
    both = int(np.count_nonzero(alarms & truth.degraded))
    return {
        "recall": proportion(int(np.count_nonzero(found)), len(first)),
        "recall_long": proportion(int(np.count_nonzero(found & long)), int(np.count_nonzero(long))),
        "precision": proportion(right, len(alarm_first)),
        "window_recall": proportion(both, true_windows),
        "window_precision": proportion(both, alarm_windows),
    }
