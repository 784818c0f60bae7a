"""Scores of every learned model on the rows of its parity vectors, as JSON: read in the detector image of one
platform, compared with those of another.

    python3 scores.py >FILE               prints {model: scores}
    python3 scores.py --against FILE      one line a model; ends with 1 when one is more than LIMIT apart
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np

from pqdetect.features import FeatureStream
from pqdetect.model import load
from pqdetect.models import card as cards
from pqdetect.models import vectors

#: Largest difference of one score between two platforms.
LIMIT: Final = 1e-4

Scores = dict[str, list[list[float | None]]]


def scores_here() -> Scores:
    """Scores of this platform, window by window; null: no answer yet."""
    told: Scores = {}
    for path in sorted(cards.models_folder().glob(f"*/{vectors.FILE}")):
        rows, _ = vectors.read(path.parent)
        model, stream = load(path.parent), FeatureStream()
        answers: list[list[float | None]] = []
        for k, row in enumerate(rows):
            stream.push_row(k, row)
            answers.append([float(x) if np.isfinite(x) else None for x in map(float, model.step(stream))])
        told[path.parent.name] = answers
    return told


def apart(here: list[list[float | None]], there: list[list[float | None]]) -> float:
    """Largest difference; infinity where only one of them has an answer, or where no window has one."""
    worst, compared = 0.0, 0
    for ours, theirs in zip(here, there, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            if a is None and b is None:
                continue
            if a is None or b is None:
                return float("inf")
            worst, compared = max(worst, abs(a - b)), compared + 1
    return worst if compared else float("inf")


def compare(there: Scores) -> int:
    """One line a model; 1 where one is too far apart or missing."""
    here = scores_here()
    code = 0 if here and here.keys() == there.keys() else 1
    if code:
        print(f"[ ] models differ: {sorted(here)} here, {sorted(there)} there")
    for name in sorted(here.keys() & there.keys()):
        worst = apart(here[name], there[name])
        fits = worst <= LIMIT
        code = code if fits else 1
        print(f"[{'x' if fits else ' '}] {name}: {worst:.1e} apart, limit {LIMIT:g}, {len(here[name])} rows")
    return code


def main(words: list[str]) -> int:
    """Print, or compare."""
    if not words:
        json.dump(scores_here(), sys.stdout)
        return 0
    return compare(json.loads(Path(words[1]).read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
