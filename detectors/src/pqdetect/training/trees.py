"""Trains boosted trees (XGBoost) on rows made wide, one booster an output, and writes them as ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pqdetect.features import five_window_many, multi_scale_many
from pqdetect.models import trees as forest
from pqdetect.training.data import Dataset

Rows = NDArray[np.float32]
Wide = Callable[[Rows], Rows]
WIDE: dict[str, Wide] = {"five_window": five_window_many, "multi_scale": multi_scale_many}


@dataclass(frozen=True)
class Settings:
    """Of XGBoost; names as its own parameters have them."""

    rounds: int = 140
    max_depth: int = 6
    eta: float = 0.12
    subsample: float = 0.8
    colsample_bytree: float = 0.5
    min_child_weight: float = 20.0
    max_bin: int = 64
    # Of the windows without attack and loss this share is kept, weighted up by its inverse.
    quiet_share: float = 0.15

    def as_dict(self) -> dict[str, object]:
        """As a card holds it."""
        return asdict(self)


@dataclass(frozen=True)
class Sample:
    """Training rows of one input kind, drawn once for all seeds."""

    wide: Rows
    labels: NDArray[np.float32]  # (n, 2)
    known: NDArray[np.bool_]  # (n, 2)
    weights: NDArray[np.float32]


def sample(data: Dataset, given: str, settings: Settings, seed: int) -> Sample:
    """Every window of an attack or of degradation, and a share of the others."""
    rng = np.random.default_rng([seed, 1])
    truth = data.truth
    busy = truth.attack | truth.degraded
    keep = busy | (rng.random(len(busy)) < settings.quiet_share)
    # What happened unseen is no example of either.
    keep &= ~truth.hidden & np.isfinite(data.rows).any(axis=1)
    wide = np.concatenate([WIDE[given](data.rows[a:b])[keep[a:b]] for a, b in data.spans])
    labels = np.stack([truth.attack[keep], truth.degraded[keep]], axis=1).astype(np.float32)
    known = np.stack([np.ones(len(labels), np.bool_), truth.degraded_known[keep]], axis=1)
    weights = np.where(busy[keep], 1.0, 1.0 / settings.quiet_share).astype(np.float32)
    return Sample(wide, labels, known, weights)


@dataclass(frozen=True)
class Trained:
    """One model: its ONNX file, how many parameters, and what XGBoost itself says to the probe's rows."""

    graph: bytes
    parameters_count: int
    # (n, 2) scores by XGBoost of the rows to be held against the deployed file.
    theirs: Rows
    # Largest difference of a margin between XGBoost and a plain walk through the exported nodes.
    difference: float


def train(drawn: Sample, settings: Settings, seed: int, probe: Rows, shuffle: bool = False) -> Trained:
    """Both boosters on a sample; with ``shuffle`` labels are dealt out anew: what is left must be chance."""
    import xgboost

    labels = drawn.labels
    if shuffle:
        labels = labels[np.random.default_rng([seed, 2]).permutation(len(labels))]
    outputs, differences, scores = [], [], []
    walked = drawn.wide[:: max(len(drawn.wide) // 200, 1)]
    for place in range(2):
        known = drawn.known[:, place]
        matrix = xgboost.DMatrix(
            drawn.wide[known], labels[known, place], weight=drawn.weights[known], missing=np.nan, nthread=1
        )
        parameters = {
            "objective": "binary:logistic",
            "base_score": 0.5,
            "tree_method": "hist",
            "nthread": 1,
            "seed": seed * 2 + place,
            "max_depth": settings.max_depth,
            "eta": settings.eta,
            "subsample": settings.subsample,
            "colsample_bytree": settings.colsample_bytree,
            "min_child_weight": settings.min_child_weight,
            "max_bin": settings.max_bin,
        }
        booster = xgboost.train(parameters, matrix, num_boost_round=settings.rounds)
        trees = forest.read_xgboost(bytes(booster.save_raw("json")))
        theirs = booster.predict(xgboost.DMatrix(walked, missing=np.nan, nthread=1), output_margin=True)
        differences.append(float(np.abs(forest.margins(trees, walked) - theirs).max()))
        scores.append(booster.predict(xgboost.DMatrix(probe, missing=np.nan, nthread=1)))
        outputs.append(trees)
    notes = {"features": str(drawn.wide.shape[1])}
    graph = forest.graph(outputs, [0.0, 0.0], drawn.wide.shape[1], notes)
    return Trained(graph, forest.parameters_count(outputs), np.stack(scores, axis=1), max(differences))
