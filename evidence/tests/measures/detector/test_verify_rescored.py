"""Scores of detectors made again in plain Python: the same rows and scores as the detector's own."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alone_kit import Alone
from bad_bundles.forge import cells, edit, finish, load_lines, save_lines
from bundle_kit import make_sealed
from measures.detector.bad_bundles import scored
from scored_files import BINS, MODELS, card

from pqdetect.features import features_many, five_window_many
from pqdetect.feed import DELTAS, FIELDS
from pqevidence.measures.detector import forest
from pqevidence.measures.detector.forest import packed, read_forest, shipped
from pqevidence.measures.detector.windows import UNKNOWN, WIDTH, five_window, read_bins
from pqevidence.paths import project_root
from pqevidence.verify import CheckResult, verify_bundle

#: what detectors/src/pqdetect/models/vectors.py allows between a model and its file
TOLERANCE = 2e-4


def test_rows_are_the_detectors_own_to_the_last_bit(tmp_path: Path) -> None:
    """Empty bins, empty windows, windows without the host's counters: all of it."""
    rng = random.Random(7)
    windows = 40
    counts = np.zeros((windows, BINS, len(FIELDS)), np.int64)
    deltas = np.full((windows, len(DELTAS)), np.nan)
    lines: list[object] = [{"fields": list(reversed(FIELDS))}]
    for k in range(windows):
        for place in range(BINS if k % 7 else 0):
            if rng.random() < 0.7:
                row = [rng.choice((0, 0, 1, 3, rng.randrange(2000))) for _ in FIELDS]
                counts[k, place] = row
                lines.append([k * BINS + place, row[::-1]])
        if k % 5:
            told: dict[str, dict[str, int]] = {"interface": {}, "udp": {}}
            for place, name in enumerate(DELTAS):
                prefix, _, rest = name.partition("_")
                deltas[k, place] = told["interface" if prefix == "if" else "udp"][rest] = rng.randrange(
                    90_000
                )
            lines.append({"k": k, **told})
    file = tmp_path / "bins.ndjson"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    bins = read_bins(file)
    ours = np.array([bins.row(k) for k in range(windows)], np.float64)
    theirs = features_many(counts, deltas).astype(np.float64)
    assert ours.shape == theirs.shape == (windows, WIDTH)
    np.testing.assert_array_equal(ours, theirs)
    wide = [
        five_window([bins.row(k - age) if k >= age else UNKNOWN for age in range(5)]) for k in range(windows)
    ]
    np.testing.assert_array_equal(wide, five_window_many(theirs.astype(np.float32)).astype(np.float64))


def _trees() -> list[tuple[Path, dict[str, Any]]]:
    """(folder, card) of every model of trees, those that older bundles rest on among them."""
    cards = [path for folder in forest.MODELS for path in (project_root() / folder).glob("*/card.json")]
    found = [(path.parent, json.loads(path.read_text())) for path in sorted(cards)]
    return [(folder, card) for folder, card in found if card["kind"] == "trees"]


def test_scores_are_those_of_the_trained_models() -> None:
    """XGBoost itself said them to the rows beside each model."""
    judged = [(folder, card) for folder, card in _trees() if card["input"]["rows"] == forest.FIVE_WINDOW]
    assert {folder.name for folder, _ in judged} >= {card()["name"], "xgboost-5w-2026-11-22"}
    for folder, told in judged:
        found = shipped(told["sha256"])
        assert found is not None, folder
        vectors = json.loads((folder / "vectors.json").read_text())
        rows = np.array(vectors["rows"], dtype=np.float32)
        ours = [found.scores(row) for row in five_window_many(rows).tolist()]
        assert np.abs(np.array(ours) - np.array(vectors["scores"])).max() < TOLERANCE, folder


def test_every_model_of_trees_comes_along_under_its_own_digest() -> None:
    trees = {each["sha256"] for _, each in _trees()}
    along = dict(packed())
    assert len(trees) >= 4 and set(along) == {f"{digest}.onnx" for digest in trees} | {"cards.json"}
    for name, content in along.items():
        assert name == "cards.json" or name == f"{hashlib.sha256(content).hexdigest()}.onnx"


def test_a_model_put_beside_the_shipped_ones_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lab that trained its own publishes it; without it, its scores are a warning."""
    models = tmp_path / "detectors" / "models"
    caches = (forest.shipped, forest._cards)
    monkeypatch.setattr(forest, "project_root", lambda: tmp_path)
    try:
        for cached in caches:
            cached.cache_clear()
        assert shipped(card()["sha256"]) is None
        shutil.copytree(MODELS / card()["name"], models / "own")
        for cached in caches:
            cached.cache_clear()
        own = shipped(card()["sha256"])
        assert own is not None and own.rows == "five_window"
    finally:
        for cached in caches:
            cached.cache_clear()


def test_a_graph_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not trees and a logistic"):
        read_forest((MODELS / "tst" / "model.onnx").read_bytes(), "tokens")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose detector is a shipped model, its scores by that model."""
    root = make_sealed(tmp_path_factory.mktemp("scored"))
    scored(root, None)
    return root


def _said(root: Path) -> CheckResult:
    return next(result for result in verify_bundle(root) if result.name == "detector_rescored")


def _changed(good: Path, folder: Path, change: Callable[[Path], None]) -> CheckResult:
    root = folder / good.name
    shutil.copytree(good, root)
    for cell in cells(root):
        change(cell)
    finish(root)
    return _said(root)


def test_honest_scores_are_counted(good: Path, tmp_path: Path) -> None:
    said = _said(good)
    lines = sum(len(load_lines(cell / "detector.ndjson")) for cell in cells(good))
    assert (said.status, said.observed) == ("ok", f"{lines} scores") and lines >= 6
    with Alone(tmp_path) as alone:
        alone.ask(good)
        assert next(r for r in alone.answer() if r.name == "detector_rescored") == said


def _score(place: int, by: float) -> Callable[[Path], None]:
    def change(cell: Path) -> None:
        rows = load_lines(cell / "detector.ndjson")
        rows[place]["attack_score"] += by
        save_lines(cell / "detector.ndjson", rows)

    return change


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_score_that_moved_is_named(good: Path, tmp_path: Path, place: int) -> None:
    said = _changed(good, tmp_path, _score(place, 0.0002 if place != -1 else -0.0002))
    assert said.status == "fail"
    assert "attack_score" in said.observed and f"model {card()['sha256'][:12]} give" in said.observed


def _of_earlier_cells(cell: Path) -> None:
    rows = load_lines(cell / "detector.ndjson")
    for row in rows:
        row["history_windows"] += 200
    rows[1]["attack_score"] = 0.5
    save_lines(cell / "detector.ndjson", rows)


def test_windows_that_rest_on_another_cell_are_left(good: Path, tmp_path: Path) -> None:
    """Its first four: their rows look back to where these bins do not reach."""
    said = _changed(good, tmp_path, _of_earlier_cells)
    assert said.status == "ok" and "windows that look back into an earlier cell" in said.observed


def test_bins_without_the_windows_are_no_witness(good: Path, tmp_path: Path) -> None:
    def cut(cell: Path) -> None:
        rows = (cell / "bins.ndjson").read_text().splitlines(keepends=True)
        (cell / "bins.ndjson").write_text("".join(row for row in rows if not row.startswith('{"k"')))

    said = _changed(good, tmp_path, cut)
    assert said.status == "fail" and "rest on nothing" in said.observed


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"sha256": "ab" * 32}, "warn", "none that comes with this checker"),
        ({"kind": "transformer"}, "ok", "a transformer is not among what this checker can run"),
    ],
)
def test_what_is_not_made_again_is_said(
    good: Path, tmp_path: Path, change: dict[str, str], status: str, text: str
) -> None:
    root = tmp_path / good.name
    shutil.copytree(good, root)

    def other(providers: dict[str, dict[str, dict[str, object]]]) -> None:
        named = providers["detectors"]["xgboost"]
        named.update(sha256=change.get("sha256", named["sha256"]), card={**card(), **change})

    edit(root / "data" / "providers.json", other)
    finish(root)
    said = _said(root)
    assert said.status == status and text in said.observed
