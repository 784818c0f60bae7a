"""The model that runs: features as windows come, scores of the newest one, the rule of the model's card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from pqdetect import model as models
from pqdetect.decide import Decider
from pqdetect.features import FeatureStream
from pqdetect.feed import DELTAS, WindowInput, places, unknown_deltas
from pqdetect.service.core import Counts, Judgement

#: a rule that was interrupted for longer than this begins anew: its alarm was about another time
_INTERRUPTED: Final = 5


class ModelWatcher:
    """A model by name, with its history and two decisions. Raises DetectError when it cannot be loaded."""

    def __init__(self, name: str) -> None:
        self._loaded = models.load(name)
        self.model = self._loaded.name
        self.sha256 = self._loaded.sha256
        self.card = {**self._loaded.card, "sha256": self.sha256}
        """As `pqdetect card` prints it."""
        self._stream = FeatureStream()
        self._attack, self._degraded = (Decider(self._loaded.rules[kind]) for kind in ("attack", "degraded"))
        self._fields: tuple[str, ...] = ()
        self._places: list[int] = []
        self._back: tuple[Callable[[], None], ...] = ()

    def judge(
        self, k: int, fields: tuple[str, ...], counts: Counts, kernel: dict[str, int] | None, gap: int
    ) -> Judgement:
        """See `core.Watcher`. Raises FeedError for a feed that lacks a field."""
        if fields != self._fields:
            self._fields, self._places = fields, places(fields)
        if gap > _INTERRUPTED:
            self._end_alarms()
        deltas = unknown_deltas()
        for place, name in enumerate(DELTAS):
            if kernel is not None and name in kernel:
                deltas[place] = kernel[name]
        table = np.asarray(counts, dtype=np.int64)[:, self._places]
        self._stream.push(WindowInput(k, table, deltas))
        scores = self._loaded.step(self._stream)
        return Judgement(
            attack_score=float(scores.attack),
            degraded_score=float(scores.degraded),
            attack=self._attack.step(float(scores.attack)),
            degraded=self._degraded.step(float(scores.degraded)),
            history_windows=self._stream.history_windows,
        )

    def forget(self) -> None:
        """Empty history, no alarm."""
        self._stream.reset()
        self._loaded.reset()
        self._end_alarms()
        self._back = ()

    def mark(self) -> None:
        """See `core.Watcher`."""
        self._back = self._stream.mark(), self._loaded.mark()

    def recall(self) -> None:
        """See `core.Watcher`. Alarms end: they were about windows that are gone."""
        for back in self._back:
            back()
        self._end_alarms()

    def _end_alarms(self) -> None:
        self._attack.reset()
        self._degraded.reset()
