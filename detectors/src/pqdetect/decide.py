"""From scores to decisions: a debounced threshold with hysteresis, streaming and over whole arrays.

The rule belongs to a model's card; its numbers are chosen on validation recordings only. The streaming form
is what the service runs, the array form what the evaluation runs; a test holds one against the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import number_of, whole_of

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]


class Scores(NamedTuple):
    """The two outputs of a detector at one window; larger means more sure."""

    attack: float
    degraded: float


@dataclass(frozen=True)
class Rule:
    """When an alarm begins and when it ends.

    It begins at a window where at least ``need`` of the last ``among`` scores (fewer at the start of a
    stream) are ≥ ``on``; it ends after ``hold`` windows in a row below ``off`` that do not begin it anew.
    """

    on: float
    off: float
    need: int = 1
    among: int = 1
    hold: int = 5

    def __post_init__(self) -> None:
        if not 1 <= self.need <= self.among:
            raise ValueError(f"a rule needs 1 ≤ need ≤ among, got {self.need} of {self.among}")
        if self.hold < 1 or not self.off <= self.on:
            raise ValueError(f"a rule needs hold ≥ 1 and off ≤ on, got hold {self.hold}, off {self.off}")

    def as_dict(self) -> dict[str, float | int]:
        """The rule as a card holds it."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, object]) -> Rule:
        """The rule in a card; raises `KeyError` or `ValueError` where it is none."""
        return cls(
            number_of(data, "on"),
            number_of(data, "off"),
            whole_of(data, "need"),
            whole_of(data, "among"),
            whole_of(data, "hold"),
        )


class Decider:
    """One output of one model, window by window."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.reset()

    def reset(self) -> None:
        """Forget everything: the stream of scores was interrupted."""
        self._above: deque[bool] = deque(maxlen=self.rule.among)
        self._quiet = 0
        self.alarm = False

    def step(self, score: float) -> bool:
        """The decision at this window, from this and earlier scores."""
        self._above.append(score >= self.rule.on)
        if sum(self._above) >= self.rule.need:
            self.alarm, self._quiet = True, 0
        elif score < self.rule.off:
            self._quiet += 1
            if self._quiet >= self.rule.hold:
                self.alarm = False
        else:
            self._quiet = 0
        return self.alarm


def decide(scores: Numbers, starts: Flags, rule: Rule) -> Flags:
    """What `Decider` says at each window of streams laid end to end; ``starts`` marks the first of each."""
    count = len(scores)
    if count == 0:
        return np.zeros(0, dtype=np.bool_)
    index = np.arange(count)
    first = np.maximum.accumulate(np.where(starts, index, 0))
    above = np.concatenate(([0], np.cumsum(scores >= rule.on)))
    begin = above[1:] - above[np.maximum(index - rule.among + 1, first)] >= rule.need
    low = (scores < rule.off) & ~begin
    # The last window of this stream that was not low; one before its first window where there is none.
    last_high = np.maximum(np.maximum.accumulate(np.where(low, -1, index)), first - 1)
    end = low & (index - last_high >= rule.hold)
    event = begin | end | starts
    latest = np.maximum.accumulate(np.where(event, index, 0))
    decided: Flags = begin[latest]
    return decided
