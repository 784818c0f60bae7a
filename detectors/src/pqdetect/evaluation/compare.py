"""Which detector wins at equal false alarms, by how many standard errors: over scenarios, over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from pqdetect.evaluation.metrics import Outcome
from pqdetect.evaluation.results import Gap, OverSeeds, Winner
from pqdetect.evaluation.truth import Truth

# Cheapest first: among those that cannot be told from the best one, the cheapest is the default.
BY_COST: Final = (
    "threshold",
    "any-auth-fail",
    "ewma",
    "cusum",
    "xgboost-5w",
    "xgboost",
    "cascade",
    "tst-p8",
    "tst",
)
DISTINGUISHABLE_SE: Final = 2.0


def difference(a: Outcome, b: Outcome, truth: Truth) -> Gap:
    """Recall of visible episodes by ``a`` minus that by ``b``; scenarios are the units of its error."""
    found = np.isfinite(a.delays_s).astype(np.float64) - np.isfinite(b.delays_s)
    owner = np.array([episode.scenario for episode in truth.episodes], dtype=np.int64)
    if len(owner) == 0:
        return {"difference": None, "reason": "no visible episode", "se": None, "in_se": None, "scenarios": 0}
    names, place = np.unique(owner, return_inverse=True)
    counts = np.bincount(place).astype(np.float64)
    mean = float(found.mean())
    rest = np.bincount(place, weights=found) - counts * mean
    units = len(names)
    error = math.sqrt(units / (units - 1) * float((rest**2).sum())) / len(found) if units > 1 else math.nan
    return {
        "difference": round(mean, 5),
        "se": round(error, 5) if math.isfinite(error) else None,
        "in_se": round(mean / error, 2) if error > 0 and math.isfinite(error) else None,
        "scenarios": units,
    }


def winner(equal: Mapping[str, Outcome], truth: Truth) -> Winner:
    """The best at equal false alarms, every other one against it, and which becomes the default."""
    found = {name: int(np.count_nonzero(np.isfinite(result.delays_s))) for name, result in equal.items()}
    ranked = [name for name in BY_COST if name in equal]
    best = max(ranked, key=lambda name: found[name])
    against = {name: difference(equal[best], equal[name], truth) for name in ranked if name != best}
    close = [best] + [
        name
        for name, one in against.items()
        if one["difference"] == 0 or (one["in_se"] is not None and one["in_se"] < DISTINGUISHABLE_SE)
    ]
    return {
        "best": best,
        "against": against,
        "not_distinguishable": sorted(close[1:]),
        "default": min(close, key=ranked.index),
        "rule": "most visible episodes at equal false alarms; "
        f"the cheapest of those within {DISTINGUISHABLE_SE:g} SE",
    }


def over_seeds(values: list[float]) -> OverSeeds:
    """Mean of a figure over seeds and its standard error."""
    array = np.array(values, dtype=np.float64)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else None
    return {
        "n": len(array),
        "mean": round(float(array.mean()), 5) if len(array) else None,
        "se": None if error is None else round(error, 5),
        "values": [round(float(value), 5) for value in array],
    }


def seeds_apart(a: OverSeeds, b: OverSeeds) -> float | None:
    """Difference of two means in standard errors of seeds; None where one has a single seed."""
    if a["se"] is None or b["se"] is None or a["mean"] is None or b["mean"] is None:
        return None
    error = math.hypot(a["se"], b["se"])
    return round((a["mean"] - b["mean"]) / error, 2) if error > 0 else None
