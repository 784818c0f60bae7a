"""Parity vectors: a stretch of rows and what the trained model itself said to them, beside each learned
model.

The library that trained a model is not there where it runs; these few windows carry its answers along.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.features import FeatureStream
from pqdetect.model import Model
from pqdetect.models.card import ModelError

FILE: Final = "vectors.json"
WINDOWS: Final = 48  # a multiple of a patch
TOLERANCE: Final = 2e-4

Floats = NDArray[np.float32]


def write(folder: Path, rows: Floats, scores: Floats, source: str) -> None:
    """Rows (WINDOWS, features) and scores (WINDOWS, 2); NaN: unknown feature, window without an answer."""
    told = {
        "schema": "pqdetect/vectors/v1",
        "from": source,
        "rows": [[None if np.isnan(value) else float(value) for value in row] for row in rows],
        "scores": [
            [None if np.isnan(value) else round(float(value), 7) for value in pair] for pair in scores
        ],
    }
    (folder / FILE).write_text(json.dumps(told, separators=(",", ":")) + "\n")


def read(folder: Path) -> tuple[Floats, Floats]:
    """Rows and scores; raises `ModelError` where they are missing or damaged."""
    try:
        told = json.loads((folder / FILE).read_text())
        rows, scores = (
            np.array([[np.nan if value is None else value for value in row] for row in told[key]], np.float32)
            for key in ("rows", "scores")
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / FILE} holds no parity vectors ({error})") from error
    if len(rows) != len(scores) or not np.isfinite(scores).any():
        raise ModelError(f"{folder / FILE}: {len(rows)} rows, {len(scores)} scores, or no score at all")
    return rows, scores


def difference(model: Model, folder: Path) -> float:
    """Largest difference between the scores of ``model``, streamed by windows, and those written down."""
    rows, scores = read(folder)
    model.reset()
    stream = FeatureStream()
    worst = 0.0
    for k, (row, expected) in enumerate(zip(rows, scores, strict=True)):
        stream.push_row(k, row)
        got = np.array(model.step(stream), np.float32)
        if np.isfinite(expected).all():
            worst = max(worst, float(np.abs(got - expected).max()))
    model.reset()
    return worst


def demand(apart: float, folder: Path) -> None:
    """Raises `ModelError` where trained and deployed model differ by more than rounding."""
    if not apart <= TOLERANCE:
        raise ModelError(
            f"{folder.name}: scores are {apart:.2e} from the trained model's (at most {TOLERANCE:g})"
        )
