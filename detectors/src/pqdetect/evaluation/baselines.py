"""The trivial rules of every table, fitted on validation recordings: which feature, how smooth."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.evaluation.metrics import auroc
from pqdetect.evaluation.truth import Flags
from pqdetect.features import FEATURE_NAMES
from pqdetect.models.rules import RuleModel, Signal
from pqdetect.training.data import Dataset, prefix

NAMES: Final = ("threshold", "ewma", "cusum", "any-auth-fail", "random")
# Features are ranked on this share of the validation recordings: a rank needs no more.
RANKED_SHARE: Final = 0.3
RANKED_FROM: Final = 100_000  # windows; of fewer all are read
GAINS: Final = (0.5, 0.3, 0.1)
DRIFTS: Final = (0.5, 1.0, 2.0)

Scores = NDArray[np.float32]


def signals(data: Dataset) -> dict[str, dict[str, Signal]]:
    """Signals by rule and output, as cards hold them."""
    if len(data.rows) > RANKED_FROM:
        data = prefix(data, RANKED_SHARE)
    attack = _signals(data, data.truth.attack, ~data.truth.hidden)
    degraded = _signals(data, data.truth.degraded, data.truth.degraded_known)
    return {name: {"attack": attack[name], "degraded": degraded[name]} for name in attack}


def random_scores(count: int, seed: int = 0) -> Scores:
    """Scores (count, 2) that know nothing."""
    return np.random.default_rng([seed, 9]).random((count, 2)).astype(np.float32)


def score(model: RuleModel, data: Dataset) -> Scores:
    """Scores (K, 2) of all recordings."""
    return np.concatenate([model.many(rows) for rows in data.recordings()])


def _signals(data: Dataset, positive: Flags, known: Flags) -> dict[str, Signal]:
    """The best feature by how it ranks windows, then smoothing and drift by the same measure."""
    rows, labels = data.rows[known], positive[known]
    ranked: list[tuple[float, str, float]] = []
    for place, name in enumerate(FEATURE_NAMES):
        value = auroc(np.nan_to_num(rows[:, place], nan=0.0).astype(np.float64), labels)
        if value is not None:
            ranked.append((max(value, 1 - value), name, 1.0 if value >= 0.5 else -1.0))
    if not ranked:
        raise ValueError("validation recordings hold no window of the kind to be found")
    _, feature, sign = max(ranked)
    calm = data.rows[known & ~positive][:, FEATURE_NAMES.index(feature)].astype(np.float64)
    calm = calm[np.isfinite(calm)]
    mean, std = float(calm.mean()), max(float(calm.std()), 1e-3)

    def best(candidates: list[Signal]) -> Signal:
        # One output is judged; the other slot only fills the model.
        values = [
            auroc(score(RuleModel(one, one), data)[known, 0].astype(np.float64), labels) for one in candidates
        ]
        return candidates[int(np.argmax([value or 0.0 for value in values]))]

    plain = Signal("level", feature, sign)
    loss = [Signal("loss3"), Signal("loss3", quiet=True)]
    return {
        "threshold": best([plain, *loss]),
        "ewma": best([Signal("ewma", feature, sign, gain=gain) for gain in GAINS]),
        "cusum": best([Signal("cusum", feature, sign, drift=d, mean=mean, std=std) for d in DRIFTS]),
        "any-auth-fail": Signal("level", "auth_failed"),
    }
