"""Trivial detectors: one number of the feed, held against a level, smoothed or summed up.

They stand beside the learned ones in every table, and one that wins is a model like any other: a card without
a graph. Scores are in the units of the feature they watch; the levels are in the card's rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Scores
from pqdetect.features import FEATURE_NAMES, FeatureStream

METHODS: Final = ("level", "ewma", "cusum", "loss3")
# A sum that never ends would stand for hours after a flood.
CUSUM_CEILING: Final = 300.0
LOSS_WINDOWS: Final = 3

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Signal:
    """One output of a rule.

    ``level``: sign × feature. ``ewma``: its exponential mean, weight ``gain`` for the newest window.
    ``cusum``: sum of what exceeds ``drift`` standard deviations above the mean of attack-free windows, never
    below 0. ``loss3``: share of the peer's packets missing over 3 windows; with ``quiet`` a silence of all
    three counts as 1.
    """

    method: str
    feature: str = ""
    sign: float = 1.0
    gain: float = 1.0
    drift: float = 0.0
    mean: float = 0.0
    std: float = 1.0
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is none of {', '.join(METHODS)}")
        if self.method != "loss3" and self.feature not in FEATURE_NAMES:
            raise ValueError(f"no feature {self.feature!r}")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Signal:
        """As a card holds it."""
        return cls(**data)


class Follower:
    """A signal as windows come."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self._column = FEATURE_NAMES.index(signal.feature) if signal.feature else -1
        self._missing, self._authentic = FEATURE_NAMES.index("missing"), FEATURE_NAMES.index("authentic")
        self.reset()

    def reset(self) -> None:
        """Forget what was summed up."""
        self._value = 0.0
        self._recent: list[tuple[float, float]] = []

    def mark(self) -> Callable[[], None]:
        """What brings the sums of this moment back."""
        value, recent = self._value, self._recent

        def back() -> None:
            self._value, self._recent = value, recent

        return back

    def step(self, row: Floats) -> float:
        """The signal's value at this window; an unknown feature leaves it as it was."""
        signal = self.signal
        if signal.method == "loss3":
            return self._loss(float(row[self._missing]), float(row[self._authentic]))
        x = signal.sign * float(row[self._column])
        if not math.isfinite(x):
            return self._value
        if signal.method == "level":
            self._value = x
        elif signal.method == "ewma":
            self._value += signal.gain * (x - self._value)
        else:
            excess = (x - signal.sign * signal.mean) / signal.std - signal.drift
            self._value = min(max(self._value + excess, 0.0), CUSUM_CEILING)
        return self._value

    def _loss(self, missing: float, authentic: float) -> float:
        if math.isfinite(missing) and math.isfinite(authentic):
            self._recent = [*self._recent, (missing, authentic)][-LOSS_WINDOWS:]
        lost, came = (sum(pair[place] for pair in self._recent) for place in (0, 1))
        if self.signal.quiet and len(self._recent) == LOSS_WINDOWS and came == 0:
            return 1.0
        return lost / (lost + came) if lost else 0.0


class RuleModel:
    """Both outputs as rules."""

    def __init__(self, attack: Signal, degraded: Signal) -> None:
        self._attack, self._degraded = Follower(attack), Follower(degraded)
        self._resets = -1

    def reset(self) -> None:
        """Forget what was summed up."""
        self._attack.reset()
        self._degraded.reset()

    def mark(self) -> Callable[[], None]:
        """What brings the sums of this moment back."""
        attack, degraded, resets = self._attack.mark(), self._degraded.mark(), self._resets

        def back() -> None:
            attack()
            degraded()
            self._resets = resets

        return back

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the newest window."""
        if stream.resets != self._resets:
            self.reset()
            self._resets = stream.resets
        row = stream.latest
        return Scores(self._attack.step(row), self._degraded.step(row))

    def many(self, rows: Floats) -> Floats:
        """(K, 2) scores of a recording from a cold start."""
        self.reset()
        pairs = [(self._attack.step(row), self._degraded.step(row)) for row in rows]
        return np.array(pairs, dtype=np.float32).reshape(len(rows), 2)
