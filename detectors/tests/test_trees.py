"""Boosted trees: read from XGBoost's JSON, walked, and written as an ONNX graph that holds the same nodes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from pqdetect.models import trees
from pqdetect.models.onnxfile import Graph, varint

spec = importlib.util.spec_from_file_location("onnxread", Path(__file__).with_name("onnxread.py"))
assert spec is not None
assert spec.loader is not None
onnxread = importlib.util.module_from_spec(spec)
spec.loader.exec_module(onnxread)

# The root splits feature 1 at 0.5 (missing: left); its right child splits feature 0 at 2 (missing: right).
TREE = {
    "left_children": [1, -1, 3, -1, -1],
    "right_children": [2, -1, 4, -1, -1],
    "split_indices": [1, 0, 0, 0, 0],
    "split_conditions": [0.5, -1.0, 2.0, 0.25, 4.0],
    "default_left": [1, 0, 0, 0, 0],
    "split_type": [0, 0, 0, 0, 0],
    "tree_param": {"size_leaf_vector": "1"},
}


def document(*found: dict[str, object]) -> str:
    return json.dumps({"learner": {"gradient_booster": {"model": {"trees": list(found)}}}})


def rows(*values: tuple[float, float]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_rows_end_in_the_leaf_that_the_splits_name() -> None:
    forest = trees.read_xgboost(document(TREE, TREE))
    nan = float("nan")
    given = rows((0, 0.4), (1.9, 0.5), (2.0, 0.6), (9, nan), (nan, 0.7))
    # Below a threshold is left, equal is right, missing goes where its node says.
    assert trees.margins(forest, given).tolist() == [-2.0, 0.5, 8.0, -2.0, 8.0]


def test_the_graph_holds_every_node_of_both_outputs() -> None:
    forest = trees.read_xgboost(document(TREE))
    data = trees.graph([forest, [*forest, *forest]], [0.0, 0.0], 2, {"features": "2"})
    model = onnxread.message(data)
    graph = onnxread.message(model[7][0])
    ensemble = onnxread.message(graph[1][0])
    found = onnxread.attributes(ensemble)
    assert ensemble[4] == [b"TreeEnsembleRegressor"]
    assert found["nodes_treeids"] == [0] * 5 + [1] * 5 + [2] * 5
    assert found["nodes_modes"][:5] == ["BRANCH_LT", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
    assert found["nodes_values"][:5] == [0.5, 0.0, 2.0, 0.0, 0.0]
    assert found["nodes_missing_value_tracks_true"][:5] == [1, 0, 0, 0, 0]
    assert found["target_ids"] == [0] * 3 + [1] * 6
    assert found["target_weights"][:3] == [-1.0, 0.25, 4.0]
    assert trees.parameters_count([forest, [*forest, *forest]]) == 15
    assert trees.graph([forest], [0.0], 2, {}) == trees.graph([forest], [0.0], 2, {})


@pytest.mark.parametrize(
    "change",
    [{"split_type": [1, 0, 0, 0, 0]}, {"tree_param": {"size_leaf_vector": "2"}}],
    ids=["categorical", "vector"],
)
def test_trees_that_cannot_be_expressed_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="only numerical splits"):
        trees.read_xgboost(document(TREE | change))


@pytest.mark.parametrize(
    ("value", "told"), [(0, b"\0"), (127, b"\x7f"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\1")]
)
def test_varint(value: int, told: bytes) -> None:
    assert varint(value) == told


def test_a_graph_refuses_doubles_and_double_names() -> None:
    graph = Graph("g")
    graph.constant("a", 1.0)
    with pytest.raises(ValueError, match="there already"):
        graph.constant("a", 2.0)
    with pytest.raises(ValueError, match="float32 or int64"):
        graph.constant("b", np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty list"):
        graph.node("Any", ["a"], "c", axes=[])
        graph.encode([], [], {"": 17}, {})
