"""Boosted trees: read from XGBoost's own JSON, written as one ONNX TreeEnsembleRegressor with two outputs.

Both give the same sums of leaves: XGBoost compares ``x < threshold`` in float32, goes where ``default_left``
says for a missing value, and so does the operator (BRANCH_LT). The tests hold both against a plain walk
through the nodes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pqdetect.models.onnxfile import Graph, Port

OPSETS = {"": 17, "ai.onnx.ml": 3}


@dataclass(frozen=True)
class Tree:
    """Nodes in XGBoost's order: node 0 is the root, a left child of −1 marks a leaf."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    feature: tuple[int, ...]
    # The threshold of a split, the value of a leaf.
    value: tuple[float, ...]
    missing_left: tuple[bool, ...]

    def leaf(self, row: NDArray[np.float32]) -> float:
        """The leaf value a row of features ends in."""
        node = 0
        while self.left[node] != -1:
            x = row[self.feature[node]]
            go_left = self.missing_left[node] if np.isnan(x) else bool(x < np.float32(self.value[node]))
            node = self.left[node] if go_left else self.right[node]
        return self.value[node]


def read_xgboost(document: bytes | str) -> list[Tree]:
    """Trees of ``Booster.save_raw("json")`` for one output; the base score is not among them.

    Raises `ValueError` on categorical splits or on several outputs, which `graph` cannot express.
    """
    model = json.loads(document)["learner"]["gradient_booster"]["model"]
    trees = []
    for item in model["trees"]:
        if any(item.get("split_type", ())) or int(item["tree_param"].get("size_leaf_vector", "1")) > 1:
            raise ValueError("only numerical splits and one output a tree can be exported")
        trees.append(
            Tree(
                tuple(item["left_children"]),
                tuple(item["right_children"]),
                tuple(item["split_indices"]),
                tuple(float(np.float32(value)) for value in item["split_conditions"]),
                tuple(bool(flag) for flag in item["default_left"]),
            )
        )
    return trees


def margins(trees: Sequence[Tree], rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sum of leaves for each row: slow and plain, what the exported file is held against."""
    return np.array([sum(tree.leaf(row) for tree in trees) for row in rows], dtype=np.float64)


def graph(
    outputs: Sequence[Sequence[Tree]], bases: Sequence[float], feature_count: int, notes: dict[str, str]
) -> bytes:
    """An ONNX file: ``x`` (n, feature_count) float32 → ``scores`` (n, outputs), logistic of the sums."""
    numbers: dict[str, list[int]] = {
        key: []
        for key in (
            "treeids",
            "nodeids",
            "featureids",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    modes: list[str] = []
    values: list[float] = []
    target: dict[str, list[int]] = {"treeids": [], "nodeids": [], "ids": []}
    weights: list[float] = []
    forest = [(place, tree) for place, trees in enumerate(outputs) for tree in trees]
    for tree_id, (place, tree) in enumerate(forest):
        for node in range(len(tree.left)):
            leaf = tree.left[node] == -1
            numbers["treeids"].append(tree_id)
            numbers["nodeids"].append(node)
            numbers["featureids"].append(0 if leaf else tree.feature[node])
            numbers["truenodeids"].append(0 if leaf else tree.left[node])
            numbers["falsenodeids"].append(0 if leaf else tree.right[node])
            numbers["missing_value_tracks_true"].append(int(not leaf and tree.missing_left[node]))
            modes.append("LEAF" if leaf else "BRANCH_LT")
            values.append(0.0 if leaf else tree.value[node])
            if leaf:
                target["treeids"].append(tree_id)
                target["nodeids"].append(node)
                target["ids"].append(place)
                weights.append(tree.value[node])
    built = Graph("trees")
    built.node(
        "TreeEnsembleRegressor",
        ["x"],
        "margins",
        domain="ai.onnx.ml",
        n_targets=len(outputs),
        aggregate_function="SUM",
        post_transform="NONE",
        base_values=[float(base) for base in bases],
        nodes_modes=modes,
        nodes_values=values,
        target_weights=weights,
        **{f"nodes_{key}": column for key, column in numbers.items()},
        **{f"target_{key}": column for key, column in target.items()},
    )
    built.node("Sigmoid", ["margins"], "scores")
    return built.encode(
        [Port("x", ("n", feature_count))], [Port("scores", ("n", len(outputs)))], OPSETS, notes
    )


def parameters_count(outputs: Sequence[Sequence[Tree]]) -> int:
    """One threshold or leaf value a node."""
    return sum(len(tree.left) for trees in outputs for tree in trees)
