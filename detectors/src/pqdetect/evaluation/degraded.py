"""The trade of DEGRADED: stretches found against alarms that are right, over the level of the alarm.

One curve for the default detector and one for the rule that counts missing packets: they show that no level
meets both targets, and how far apart the two are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Rule, decide
from pqdetect.evaluation.metrics import degraded_report
from pqdetect.evaluation.results import DegradedPoint
from pqdetect.evaluation.truth import Truth
from pqdetect.training.tune import levels

BESIDE: Final = "threshold"
LEVELS: Final = 40
TARGET_RECALL: Final = 0.99
TARGET_PRECISION: Final = 0.95


def curves(
    scores: Mapping[str, NDArray[np.float32]], rules: Mapping[str, Mapping[str, Rule]], truth: Truth
) -> dict[str, list[DegradedPoint]]:
    """Points by detector, highest level first."""
    return {
        name: curve(values[:, 1].astype(np.float64), rules[name]["degraded"], truth)
        for name, values in scores.items()
    }


def curve(scores: NDArray[np.float64], rule: Rule, truth: Truth) -> list[DegradedPoint]:
    """The card's rule at many levels; the level at which an alarm ends keeps its ratio."""
    ratio = rule.off / rule.on if rule.on > 0 else 1.0
    points: list[DegradedPoint] = []
    for level in levels(scores, ~truth.near_degraded, LEVELS):
        moved = replace(rule, on=level, off=level * ratio if level > 0 else level)
        report = degraded_report(decide(scores, truth.starts, moved), truth)
        points.append(
            {
                "level": float(f"{level:.6g}"),
                "recall": report["recall"]["value"],
                "recall_long": report["recall_long"]["value"],
                "precision": report["precision"]["value"],
            }
        )
    return points


def nearest(points: list[DegradedPoint]) -> DegradedPoint | None:
    """The point that misses both targets by least, the worse of both counting; None without a point."""
    known = [
        (max(TARGET_RECALL - p["recall"], TARGET_PRECISION - p["precision"]), p)
        for p in points
        if p["recall"] is not None and p["precision"] is not None
    ]
    return min(known, key=lambda one: one[0])[1] if known else None
