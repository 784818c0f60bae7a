"""Scratch files of a training run: recordings as arrays, so that a second run need not simulate again.

Below the folder that --work names; nothing of it is committed and all of it can be made again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

import pqdetect
from pqdetect.evaluation.truth import Episode, Truth
from pqdetect.recording import Recording
from pqdetect.simulate import scenarios, simulate, table_sha256
from pqdetect.training.data import Dataset, Progress, collect

# The simulator, features and labels.
_MADE_BY: Final = ("simulate/*.py", "features/*.py", "feed.py", "recording.py", "training/data.py")
_ARRAYS = ("scenario", "starts", "attack", "hidden", "degraded", "degraded_known")


def recordings(split: str, scale: float) -> Iterator[Recording]:
    """Simulated flights of a split, with progress."""
    specs = list(scenarios(split, scale=scale))  # type: ignore[arg-type]
    progress = Progress(f"simulate {split}, hours", sum(spec.duration_s for spec in specs) / 3600)
    done_s = 0.0
    for spec in specs:
        yield simulate(spec)
        done_s += spec.duration_s
        progress.at(done_s / 3600)


def dataset(split: str, scale: float, work: Path) -> Dataset:
    """The recordings of a split as arrays; simulated unless ``work`` has them, of the same table and code."""
    path = work / f"{split}-{scale:g}-{table_sha256()[:12]}-{code_sha256()[:12]}.npz"
    if path.is_file():
        print(f"  {split}: read from {path.name}", file=sys.stderr)
        return load(path)
    made = collect(recordings(split, scale))
    save(path, made)
    return made


def code_sha256() -> str:
    """Checksum of the modules that make a dataset: of others there is nothing to keep."""
    root = Path(pqdetect.__file__).parent
    total = hashlib.sha256()
    for name in sorted(path for part in _MADE_BY for path in root.glob(part)):
        total.update(name.read_bytes())
    return total.hexdigest()


def save(path: Path, data: Dataset) -> None:
    """Write a dataset; whole or not at all."""
    truth = data.truth
    words = {
        "scenario_ids": truth.scenario_ids,
        "episodes": [asdict(episode) for episode in truth.episodes],
        "spans": data.spans,
        "kinds": data.kinds,
    }
    half = path.with_suffix(".part")
    with half.open("wb") as out:
        np.savez(
            out,
            rows=data.rows,
            words=np.frombuffer(json.dumps(words).encode(), dtype=np.uint8),
            **{name: getattr(truth, name) for name in _ARRAYS},
        )
    half.replace(path)


def load(path: Path) -> Dataset:
    """Read a dataset; raises OSError, ValueError or KeyError on a file that is none."""
    with np.load(path, allow_pickle=False) as kept:
        words = json.loads(kept["words"].tobytes())
        arrays = {name: kept[name] for name in _ARRAYS}
        rows = kept["rows"]
    truth = Truth(
        tuple(words["scenario_ids"]), episodes=tuple(Episode(**one) for one in words["episodes"]), **arrays
    )
    return Dataset(rows, truth, tuple((int(a), int(b)) for a, b in words["spans"]), tuple(words["kinds"]))
