"""Loads a model by name: the one object that evaluation and service both run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import number_of, part_of
from pqdetect.decide import Rule, Scores
from pqdetect.features import SCHEMA as FEATURES
from pqdetect.features import FeatureStream
from pqdetect.models import card as cards
from pqdetect.models.card import Card, ModelError
from pqdetect.models.cascade import Cascade, Scorer
from pqdetect.models.learned import Transformer, Trees
from pqdetect.models.rules import RuleModel, Signal
from pqdetect.models.session import open_graph
from pqdetect.models.transformer import Shape

__all__ = ["Model", "ModelError", "Scores", "load"]


@dataclass
class Model:
    """A detector ready to run. ``sha256`` is the graph's checksum, or the card's where there is no graph."""

    name: str
    sha256: str
    card: Card
    rules: dict[str, Rule]
    scorer: Scorer

    def reset(self) -> None:
        """Forget the stream; a reset of the stream itself is noticed without this."""
        self.scorer.reset()

    def mark(self) -> Callable[[], None]:
        """What brings the memory of this moment back; the stream's own mark goes with it."""
        return self.scorer.mark()

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the stream's newest window; call once for each window that was pushed."""
        return self.scorer.step(stream)

    def many(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(K, 2) scores of a recording's rows from a cold start; a missing window is a row of NaN."""
        return self.scorer.many(rows)


def load(name: str | Path = "default") -> Model:
    """The model of that name or folder. Raises `ModelError` that says what is wrong with it."""
    folder = cards.find(name)
    card = cards.read(folder)
    if card["features"] != FEATURES:
        raise ModelError(f"{folder.name} was trained on {card['features']}, this package makes {FEATURES}")
    try:
        scorer = _scorer(folder, card)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{folder / cards.CARD} does not say how to run it ({error})") from error
    rules = {output: Rule.of(part_of(part_of(card, "rules"), output)) for output in ("attack", "degraded")}
    digest = card["sha256"] if "sha256" in card else cards.sha256(folder / cards.CARD)
    return Model(str(card["name"]), str(digest), card, rules, scorer)


def _scorer(folder: Path, card: Card) -> Scorer:
    kind = card["kind"]
    if kind == "trees":
        return Trees(open_graph(folder / cards.GRAPH), str(part_of(card, "input")["rows"]))
    if kind == "transformer":
        given = card["shape"]
        if not isinstance(given, dict):
            raise TypeError("`shape` is no object")
        return Transformer(
            open_graph(folder / cards.GRAPH), Shape(**{**given, "lookback": tuple(given["lookback"])})
        )
    if kind == "rule":
        return RuleModel(
            *(Signal.of(part_of(part_of(card, "signals"), output)) for output in ("attack", "degraded"))
        )
    stages = part_of(card, "stages")
    first, second = (load(folder.parent / str(stages[place])).scorer for place in ("first", "second"))
    return Cascade(first, second, number_of(stages, "trigger"), str(stages["join"]))
