"""What is trained and how much of it: the models by name, and the two sizes of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqdetect.features import FEATURE_NAMES, FIVE_WINDOW_NAMES, MULTI_SCALE_NAMES
from pqdetect.models import transformer
from pqdetect.training import trees as boosted

TREES: Final = {"xgboost-5w": "five_window", "xgboost": "multi_scale"}
TREE_HISTORY: Final = {"five_window": 5, "multi_scale": 100}
TREE_NAMES: Final = {"five_window": FIVE_WINDOW_NAMES, "multi_scale": MULTI_SCALE_NAMES}
SHAPES: Final = {
    "tst-p8": transformer.Shape(len(FEATURE_NAMES), 8, (17, 16, 16)),
    "tst": transformer.Shape(len(FEATURE_NAMES), 1, (133, 133, 133)),
}


@dataclass(frozen=True)
class Plan:
    """How much is trained: seeds by model, steps of the transformers."""

    scale: float
    seeds: dict[str, int]
    trees: boosted.Settings
    steps: dict[str, int]
    shuffled_seeds: int

    @classmethod
    def full(cls) -> Plan:
        """What the committed models come from."""
        seeds = {"xgboost-5w": 5, "xgboost": 5, "tst-p8": 5, "tst": 1}
        return cls(1.0, seeds, boosted.Settings(), {"tst-p8": 150, "tst": 150}, 5)

    @classmethod
    def tiny(cls) -> Plan:
        """A check that everything runs; no model to use."""
        seeds = dict.fromkeys([*TREES, *SHAPES], 1)
        return cls(0.02, seeds, boosted.Settings(rounds=12), {"tst-p8": 6, "tst": 3}, 20)
