"""Scratch files of a training run: recordings as arrays, so that a second run need not simulate again.

Below the folder that --work names; nothing of it is committed and all of it can be made again.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final

import pqdetect
from pqbase.tasks import Here, Runner
from pqdetect.simulate import scenarios, table_sha256
from pqdetect.training import arrays
from pqdetect.training.data import Dataset
from pqdetect.training.tasks import simulated

# The simulator, features and labels.
_MADE_BY: Final = ("simulate/*.py", "features/*.py", "feed.py", "recording.py", "training/data.py")


def dataset(split: str, scale: float, work: Path, runner: Runner | None = None) -> Dataset:
    """The recordings of a split as arrays; simulated unless ``work`` has them, of the same table and code."""
    path = work / f"{split}-{scale:g}-{table_sha256()[:12]}-{code_sha256()[:12]}.npz"
    if path.is_file():
        print(f"  {split}: read from {path.name}", file=sys.stderr)
        return arrays.opened(path.read_bytes())
    specs = list(scenarios(split, scale=scale))  # type: ignore[arg-type]
    made = simulated(specs, runner or Here(), work / "tasks")
    half = path.with_suffix(".part")
    half.write_bytes(arrays.packed(made))
    half.replace(path)
    return made


def code_sha256() -> str:
    """Checksum of the modules that make a dataset: of others there is nothing to keep."""
    root = Path(pqdetect.__file__).parent
    total = hashlib.sha256()
    for name in sorted(path for part in _MADE_BY for path in root.glob(part)):
        total.update(name.read_bytes())
    return total.hexdigest()
