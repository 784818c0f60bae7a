"""Scores of many models over many recordings in one pass: wide rows are made once for all that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pqdetect.features import five_window_many, multi_scale_many
from pqdetect.models.cascade import Scorer
from pqdetect.models.learned import Trees
from pqdetect.training.data import Dataset, Progress, Rows

Scores = NDArray[np.float32]


def score_all(
    models: Mapping[str, Scorer],
    every: Rows,
    spans: Sequence[tuple[int, int]],
    progress: Progress | None = None,
) -> dict[str, Scores]:
    """Scores (K, 2) by model, each recording from a cold start; spans: where each lies in the rows."""
    out = {name: np.zeros((len(every), 2), np.float32) for name in models}
    given = {model.given for model in models.values() if isinstance(model, Trees)}
    for first, end in spans:
        rows = every[first:end]
        wide = {
            kind: make(rows)
            for kind, make in (("five_window", five_window_many), ("multi_scale", multi_scale_many))
            if kind in given
        }
        for name, model in models.items():
            out[name][first:end] = (
                model.wide(wide[model.given]) if isinstance(model, Trees) else model.many(rows)
            )
        if progress is not None:
            progress.at(end)
    # A window that never came has no verdict.
    never = ~np.isfinite(every).any(axis=1)
    for scores in out.values():
        scores[never] = 0.0
    return out


def score_dataset(models: Mapping[str, Scorer], data: Dataset, what: str) -> dict[str, Scores]:
    """The same of a whole dataset, with progress."""
    return score_all(models, data.rows, data.spans, Progress(f"{what}, windows", len(data.rows)))
