"""The cascade: cheap trees look at every window, the transformer only where they are not sure it is quiet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Scores
from pqdetect.features import FeatureStream

Floats = NDArray[np.float32]
JOINS: Final = ("confirm", "mean")


class Scorer(Protocol):
    """What both stages are."""

    def reset(self) -> None:
        """Forget the stream."""
        ...

    def mark(self) -> Callable[[], None]:
        """What brings the memory of this moment back, together with the stream's own mark."""
        ...

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the newest window."""
        ...

    def many(self, rows: Floats) -> Floats:
        """(K, 2) scores of a recording."""
        ...


def joined(first: Floats, second: Floats, trigger: float, join: str) -> Floats:
    """Scores (K, 2) of the cascade from those of its stages.

    Below the trigger ATTACK is a quarter of the first stage's score. From it on: the lesser of both
    (``confirm``) or their mean. DEGRADED is the first stage's.
    """
    both = np.minimum(first[:, 0], second[:, 0]) if join == "confirm" else (first[:, 0] + second[:, 0]) / 2
    attack = np.where(first[:, 0] >= trigger, both, first[:, 0] / 4)
    return np.stack([attack, first[:, 1]], axis=1).astype(np.float32)


class Cascade:
    """Two stages in one; the second catches up from the stream's history when it is asked."""

    def __init__(self, first: Scorer, second: Scorer, trigger: float, join: str) -> None:
        if join not in JOINS:
            raise ValueError(f"join {join!r} is none of {', '.join(JOINS)}")
        self._first, self._second = first, second
        self._trigger, self._join = trigger, join

    def reset(self) -> None:
        """Forget the stream."""
        self._first.reset()
        self._second.reset()

    def mark(self) -> Callable[[], None]:
        """What brings both stages' memory back."""
        first, second = self._first.mark(), self._second.mark()

        def back() -> None:
            first()
            second()

        return back

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the newest window."""
        first = self._first.step(stream)
        second = self._second.step(stream) if first.attack >= self._trigger else first
        attack, degraded = joined(
            np.array([first], np.float32), np.array([second], np.float32), self._trigger, self._join
        )[0]
        return Scores(float(attack), float(degraded))

    def many(self, rows: Floats) -> Floats:
        """(K, 2) scores of a recording from a cold start."""
        return joined(self._first.many(rows), self._second.many(rows), self._trigger, self._join)
