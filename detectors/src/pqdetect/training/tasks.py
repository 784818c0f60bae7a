"""Simulating and scoring as tasks: pure functions of specs, models and rows to bytes, here or by workers.

How recordings are cut into tasks is fixed, whoever carries them out: a task is a run of recordings, each from
a cold start, so that no cut shows in a result.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import part_of
from pqbase.tasks import Ingredients, Plain, Runner, Task, carry_out
from pqdetect import recording
from pqdetect.evaluation.scoring import score_all
from pqdetect.model import Model, load
from pqdetect.models import card as cards
from pqdetect.simulate import AttackSpec, GroundSpec, LinkSpec, Spec, StraySpec, simulate
from pqdetect.training import arrays
from pqdetect.training.data import Dataset, collect, end_to_end

#: what results depend on beside inputs
MADE_OF: Final = Ingredients(("pqbase", "pqdetect"), ("numpy", "onnxruntime"))
#: recordings of one task
SIMULATED, SCORED = 8, 16

Scores = NDArray[np.float32]
#: name of a folder of models → its files
Files = dict[str, dict[str, bytes]]


def say(text: str) -> None:
    """Progress, beside what a command answers."""
    print(f"  {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- recordings


def flight(spec: Spec) -> Task:
    """The task whose result `files_of` opens: one recording as its files."""
    return Task("pqdetect.training.tasks:made_flight", (asdict(spec),), spec.scenario_id)


def made_flight(spec: Mapping[str, object]) -> bytes:
    """The task of `flight`: JSON of file name → text, and how many windows and episodes there are."""
    made = simulate(_spec(spec))
    counts = {"windows": len(made), "episodes": len(made.truth.episodes)}
    return json.dumps({"counts": counts, "files": recording.texts(made)}).encode()


def files_of(result: bytes) -> tuple[dict[str, int], dict[str, str]]:
    """(windows and episodes, file name → text)."""
    opened = json.loads(result)
    return opened["counts"], opened["files"]


def simulated(specs: Sequence[Spec], runner: Runner, keep: Path | None) -> Dataset:
    """The recordings of all specs, laid end to end. Raises ValueError when there is none, WorkersError."""
    tasks = []
    for first in range(0, len(specs), SIMULATED):
        part = specs[first : first + SIMULATED]
        label = f"simulate {part[0].scenario_id} to {part[-1].scenario_id}"
        tasks.append(Task("pqdetect.training.tasks:made_arrays", ([asdict(spec) for spec in part],), label))
    return end_to_end(arrays.opened(made) for made in carry_out(tasks, MADE_OF, runner, say, keep))


def made_arrays(specs: Iterable[Mapping[str, object]]) -> bytes:
    """A task of `simulated`."""
    return arrays.packed(collect(simulate(_spec(spec)) for spec in specs))


def _spec(told: Mapping[str, object]) -> Spec:
    """A spec as `asdict` told it."""
    parts = {"link": LinkSpec, "ground": GroundSpec, "strays": StraySpec}
    whole: dict[str, object] = dict(told)
    for name, kind in parts.items():
        inner = told[name]
        assert isinstance(inner, Mapping)
        whole[name] = kind(**inner)
    attacks = told["attacks"]
    assert isinstance(attacks, Sequence)
    whole["attacks"] = tuple(AttackSpec(**one) for one in attacks)
    return Spec(**whole)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- scores


def files(folders: Iterable[Path]) -> Files:
    """The content of model folders by name, a cascade's stages with it."""
    found: Files = {}
    for folder in folders:
        stages = part_of(cards.read(folder), "stages", {})
        for one in (folder, *(folder.parent / str(stages[place]) for place in ("first", "second") if stages)):
            names = [path for path in (one / cards.CARD, one / cards.GRAPH) if path.is_file()]
            found[one.name] = {path.name: path.read_bytes() for path in names}
    return found


def scored(
    models: Mapping[str, Path], data: Dataset, what: str, runner: Runner, keep: Path | None
) -> dict[str, Scores]:
    """Scores (K, 2) by key of `models`, which says where each lies; each recording from a cold start."""
    content: Plain = files(models.values())
    names: Plain = {key: folder.name for key, folder in models.items()}
    tasks = []
    for first in range(0, len(data.spans), SCORED):
        spans = data.spans[first : first + SCORED]
        begin, end = spans[0][0], spans[-1][1]
        lengths: Plain = [there - here for here, there in spans]
        label = f"{what}: recordings {first + 1} to {first + len(spans)} of {len(data.spans)}"
        rows = _array(data.rows[begin:end])
        tasks.append(Task("pqdetect.training.tasks:made_scores", (content, names, rows, lengths), label))
    parts: dict[str, list[Scores]] = {key: [] for key in models}
    for made in carry_out(tasks, MADE_OF, runner, say, keep):
        with np.load(io.BytesIO(made), allow_pickle=False) as got:
            for key in models:
                parts[key].append(got[key])
    return {key: np.concatenate(part) for key, part in parts.items()}


def made_scores(content: Files, names: Mapping[str, str], rows: bytes, lengths: Sequence[int]) -> bytes:
    """A task of `scored`."""
    given = np.load(io.BytesIO(rows), allow_pickle=False)
    ends = np.cumsum(lengths)
    spans = [(int(end) - length, int(end)) for end, length in zip(ends, lengths, strict=True)]
    with tempfile.TemporaryDirectory(prefix="pqdetect-") as folder:
        models = {key: model.scorer for key, model in _loaded(content, names, Path(folder)).items()}
        made = score_all(models, given, spans)
    out = io.BytesIO()
    np.savez(out, **{key: made[key] for key in sorted(made)})  # type: ignore[arg-type]
    return out.getvalue()


def _loaded(content: Files, names: Mapping[str, str], root: Path) -> dict[str, Model]:
    for name, texts in content.items():
        (root / name).mkdir()
        for file, data in texts.items():
            (root / name / file).write_bytes(data)
    return {key: load(root / name) for key, name in names.items()}


def _array(rows: NDArray[np.float32]) -> bytes:
    out = io.BytesIO()
    np.save(out, rows)
    return out.getvalue()
