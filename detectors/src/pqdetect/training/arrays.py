"""A dataset as one file of arrays: the same bytes for the same recordings."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Final

import numpy as np

from pqdetect.evaluation.truth import Episode, Truth
from pqdetect.training.data import Dataset

_ARRAYS: Final = ("scenario", "starts", "attack", "hidden", "degraded", "degraded_known")


def packed(data: Dataset) -> bytes:
    """What `opened` reads."""
    truth = data.truth
    words = {
        "scenario_ids": truth.scenario_ids,
        "episodes": [asdict(episode) for episode in truth.episodes],
        "spans": data.spans,
        "kinds": data.kinds,
    }
    out = io.BytesIO()
    np.savez(
        out,
        rows=data.rows,
        words=np.frombuffer(json.dumps(words).encode(), dtype=np.uint8),
        **{name: getattr(truth, name) for name in _ARRAYS},
    )
    return out.getvalue()


def opened(content: bytes) -> Dataset:
    """The dataset; raises ValueError or KeyError for bytes that are none."""
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:
        words = json.loads(kept["words"].tobytes())
        arrays = {name: kept[name] for name in _ARRAYS}
        rows = kept["rows"]
    truth = Truth(
        tuple(words["scenario_ids"]), episodes=tuple(Episode(**one) for one in words["episodes"]), **arrays
    )
    return Dataset(rows, truth, tuple((int(a), int(b)) for a, b in words["spans"]), tuple(words["kinds"]))
