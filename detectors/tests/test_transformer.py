"""The transformer's arithmetic and its streams: causal, bounded history, blocks and single tokens alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pqdetect.features import FEATURE_NAMES, FeatureStream
from pqdetect.models.learned import Transformer, Trees
from pqdetect.models.transformer import Shape, Weights, advance, empty, forward, graph, names

F = len(FEATURE_NAMES)
SMALL = Shape(features=F, patch=1, lookback=(3, 2), width=16, heads=4, hidden=24)
PATCHES = Shape(features=F, patch=4, lookback=(2, 2), width=16, heads=4, hidden=24)


def weights_of(shape: Shape, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {name: rng.normal(0, 0.4, size).astype(np.float32) for name, size in names(shape).items()}
    tokens = shape.features * shape.patch
    return made | {"mean": np.full(tokens, 0.5, np.float32), "std": np.full(tokens, 0.7, np.float32)}


def runner(shape: Shape, weights: Weights):
    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return list(advance(shape, weights, inputs["x"], inputs["past"], int(inputs["known"][0])))

    return run


def rows_of(count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.5, 20.0, (count, F)).astype(np.float32)
    rows[rng.random((count, F)) < 0.05] = np.nan
    return rows


def test_a_score_depends_on_its_history_and_on_nothing_else() -> None:
    weights, rows = weights_of(SMALL), rows_of(20)
    before = forward(SMALL, weights, rows)
    changed = rows.copy()
    changed[10] += 50.0
    differs = np.flatnonzero(np.abs(forward(SMALL, weights, changed) - before).max(axis=1) > 1e-6)
    # Not the past, and no further ahead than the lookbacks of both layers together.
    assert differs.tolist() == list(range(10, 10 + SMALL.history_tokens))
    assert SMALL.history_tokens == 6


def test_blocks_and_single_tokens_give_the_scores_of_the_whole() -> None:
    weights, rows = weights_of(SMALL), rows_of(23)
    whole = forward(SMALL, weights, rows)
    past, known = empty(SMALL)
    parts = []
    for size in (1, 1, 7, 2, 1, 11):
        scores, past = advance(
            SMALL, weights, rows[len(np.concatenate(parts)) if parts else 0 :][:size], past, known
        )
        known = min(known + size, SMALL.kept)
        parts.append(scores)
    assert np.concatenate(parts) == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("shape", [SMALL, PATCHES], ids=["windows", "patches"])
def test_the_stream_gives_what_a_whole_recording_gives(shape: Shape) -> None:
    run, rows = runner(shape, weights_of(shape)), rows_of(30)
    whole = Transformer(run, shape).many(rows)
    model, stream = Transformer(run, shape), FeatureStream()
    for k, row in enumerate(rows):
        stream.push_row(1000 + k, row)
        # Numbers need not begin at a multiple of a patch.
        assert tuple(model.step(stream)) == pytest.approx(tuple(whole[k]), abs=1e-5)


@pytest.mark.parametrize("shape", [SMALL, PATCHES], ids=["windows", "patches"])
def test_a_model_asked_now_and_then_catches_up(shape: Shape) -> None:
    run, rows = runner(shape, weights_of(shape)), rows_of(60)
    whole = Transformer(run, shape).many(rows)
    model, stream = Transformer(run, shape), FeatureStream()
    asked = {3, 4, 17, 18, 19, 58, 59}
    for k, row in enumerate(rows):
        stream.push_row(k, row)
        if k in asked:
            assert tuple(model.step(stream)) == pytest.approx(tuple(whole[k]), abs=1e-5)


def test_a_window_that_never_came_is_unknown_not_forgotten() -> None:
    run, rows = runner(SMALL, weights_of(SMALL)), rows_of(12)
    rows[5:7] = np.nan
    whole = Transformer(run, SMALL).many(rows)
    model, stream = Transformer(run, SMALL), FeatureStream()
    for k in (0, 1, 2, 3, 4, 7, 8):
        stream.push_row(k, rows[k])
        assert tuple(model.step(stream)) == pytest.approx(tuple(whole[k]), abs=1e-5)


def test_a_reset_of_the_stream_is_a_cold_start() -> None:
    run, rows = runner(SMALL, weights_of(SMALL)), rows_of(12)
    model, stream = Transformer(run, SMALL), FeatureStream()
    for k in range(6):
        stream.push_row(k, rows[k])
        model.step(stream)
    stream.reset()
    cold = Transformer(run, SMALL).many(rows[6:])
    for k in range(6, 12):
        stream.push_row(k, rows[k])
        assert tuple(model.step(stream)) == pytest.approx(tuple(cold[k - 6]), abs=1e-5)


def test_the_graph_is_the_same_bytes_each_time_and_counts_its_weights() -> None:
    weights = weights_of(PATCHES)
    data, count = graph(PATCHES, weights, {"features": "v1"})
    assert graph(PATCHES, weights, {"features": "v1"})[0] == data
    assert count == sum(int(np.prod(size)) for size in names(PATCHES).values())


def test_the_shapes_of_the_design_look_back_400_windows() -> None:
    assert Shape(F, 1, (133, 133, 133)).history_windows == 400
    assert Shape(F, 8, (17, 16, 16)).history_windows == 400


def test_trees_read_the_rows_they_were_trained_on() -> None:
    seen: list[int] = []

    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        seen.append(inputs["x"].shape[1])
        return [np.stack([np.nansum(inputs["x"], axis=1)] * 2, axis=1)]

    rows = rows_of(9)
    for given in ("five_window", "multi_scale"):
        model, stream = Trees(run, given), FeatureStream()
        whole = model.many(rows)
        for k, row in enumerate(rows):
            stream.push_row(k, row)
            assert tuple(model.step(stream)) == pytest.approx(tuple(whole[k]), rel=1e-5)
    assert len(set(seen)) == 2
    with pytest.raises(ValueError, match="is none of"):
        Trees(run, "packets")


@pytest.mark.parametrize("shape", [SMALL, PATCHES], ids=["windows", "patches"])
def test_brought_back_to_a_mark_it_scores_as_if_nothing_had_come_since(shape: Shape) -> None:
    run, rows = runner(shape, weights_of(shape)), rows_of(40)
    model, stream = Transformer(run, shape), FeatureStream()
    for k in range(20):
        stream.push_row(k, rows[k])
        model.step(stream)
    back = stream.mark(), model.mark()
    seen: list[list[float]] = []
    for disturbed in (range(20, 28), range(0)):
        for k in disturbed:
            stream.push_row(k, 50 * rows[k])
            model.step(stream)
        for restore in back:
            restore()
        seen.append([])
        for k in range(30, 40):
            stream.push_row(k, rows[k])
            seen[-1].append(model.step(stream).attack)
    # the second time the first run itself is what lies between, and it leaves no trace either
    assert seen[0] == seen[1]
    fresh, other = Transformer(run, shape), FeatureStream()
    for k in [*range(20), *range(30, 40)]:
        other.push_row(k, rows[k])
        scores = fresh.step(other)
    assert seen[0][-1] == pytest.approx(scores.attack, abs=1e-6)
