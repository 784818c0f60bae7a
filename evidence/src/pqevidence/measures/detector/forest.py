"""Boosted trees walked in plain Python: the scores of a shipped model, made again without its runtime.

Reads the ONNX files that `pqdetect train` writes, and no others: one TreeEnsembleRegressor with two outputs,
then a logistic (detectors/src/pqdetect/models/trees.py). Nothing of that package is used, so that a slip of
one shows in the other. Sums are made in doubles, the runtime makes them in single precision: scores agree to
some 1e-6.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from pqbase.documents import Json, part_of
from pqevidence.paths import project_root

#: rows a model may ask for that a cell's bins give
FIVE_WINDOW = "five_window"
#: what detectors run now, and what they ran when older bundles were made: none of these is ever taken away
MODELS = ("detectors/models", "evidence/models")
OUTPUTS = 2
Wire = int | bytes


@dataclass(frozen=True)
class Forest:
    """All trees of a model. nodes: by tree, node by node `(feature, threshold, less, other, missing)`, of a
    leaf `(-1, value, output, 0, 0)`; less, other, missing: the node that follows where the value is below the
    threshold, where it is not, where there is none. rows: which features it wants."""

    nodes: tuple[tuple[tuple[int, float, int, int, int], ...], ...]
    bases: tuple[float, float]
    rows: str

    def scores(self, row: Sequence[float]) -> tuple[float, float]:
        """(attack, degraded), 0 to 1, of a row of features in single precision; NaN is missing."""
        sums = list(self.bases)
        for tree in self.nodes:
            feature, value, less, other, missing = tree[0]
            while feature >= 0:
                given = row[feature]
                following = missing if given != given else less if given < value else other
                feature, value, less, other, missing = tree[following]
            sums[less] += value
        return _logistic(sums[0]), _logistic(sums[1])


def _logistic(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, margin))))


@cache
def shipped(digest: str) -> Forest | None:
    """The model of that SHA-256 among those of this tree; None where there is none of trees."""
    file = _files().get(digest)
    return (
        None
        if file is None
        else read_forest(file.read_bytes(), str(part_of(_by_digest()[digest], "input")["rows"]))
    )


def shipped_card(digest: str) -> Json | None:
    """What this tree says of the model of that SHA-256; None where it ships none of trees."""
    return _by_digest().get(digest)


def packed() -> Iterator[tuple[str, bytes]]:
    """Name → bytes of what a checker that stands alone takes along: models of trees, and their cards."""
    for digest, file in sorted(_files().items()):
        yield f"{digest}.onnx", file.read_bytes()
    yield "cards.json", json.dumps(_by_digest(), sort_keys=True).encode()


@cache
def _cards() -> tuple[tuple[str, Json, Traversable], ...]:
    """(digest of the file itself, its card, file) of each model of trees at hand."""
    along = resources.files("pqevidence") / "models"
    if (along / "cards.json").is_file():
        cards = json.loads((along / "cards.json").read_text(encoding="utf-8"))
        found = [(dict(card), along / f"{digest}.onnx") for digest, card in cards.items()]
    else:
        found = []
        for folder in MODELS:
            for path in sorted((project_root() / folder).glob("*/card.json")):
                card: Json = json.loads(path.read_text(encoding="utf-8"))
                if card.get("kind") == "trees":
                    found.append((card, path.with_name("model.onnx")))
    return tuple((hashlib.sha256(file.read_bytes()).hexdigest(), card, file) for card, file in found)


def _files() -> dict[str, Traversable]:
    return {digest: file for digest, _, file in _cards()}


def _by_digest() -> dict[str, Json]:
    return {digest: card for digest, card, _ in _cards()}


# ---------------------------------------------------------------------------------------------- the file


def read_forest(content: bytes, rows: str) -> Forest:
    """The trees of an ONNX file (onnx.proto: ModelProto.graph 7, GraphProto.node 1, NodeProto.op_type 4 and
    attribute 5). Raises ValueError for a graph of another kind."""
    graph = next(bytes_of(value) for field, value in _members(content) if field == 7)
    nodes = [dict_of(bytes_of(value)) for field, value in _members(graph) if field == 1]
    kinds = [bytes_of(node[4][0]).decode() for node in nodes]
    if kinds != ["TreeEnsembleRegressor", "Sigmoid"]:
        raise ValueError(f"a graph of {', '.join(kinds)}: not trees and a logistic")
    told = dict(_attribute(bytes_of(value)) for value in nodes[0][5])
    if set(told["nodes_modes"]) - {b"LEAF", b"BRANCH_LT"} or told["n_targets"] != OUTPUTS:
        raise ValueError("trees that branch otherwise than x < threshold, or of other outputs than two")
    leaves = {
        (tree, node): (output, weight)
        for tree, node, output, weight in zip(
            *(told[f"target_{name}"] for name in ("treeids", "nodeids", "ids", "weights")), strict=True
        )
    }
    columns = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
    trees: dict[int, list[tuple[int, float, int, int, int]]] = {}
    for tree, node, mode, feature, value, less, other, left in zip(
        *(told[f"nodes_{name}"] for name in (*columns, "missing_value_tracks_true")), strict=True
    ):
        within = trees.setdefault(tree, [])
        if node != len(within):
            raise ValueError(f"node {node} of tree {tree} stands at {len(within)}")
        if mode == b"LEAF":
            output, weight = leaves[tree, node]
            within.append((-1, weight, output, 0, 0))
        else:
            within.append((feature, value, less, other, less if left else other))
    attack, degraded = told["base_values"]
    return Forest(tuple(tuple(trees[tree]) for tree in sorted(trees)), (attack, degraded), rows)


def _attribute(content: bytes) -> tuple[str, Any]:
    """AttributeProto: name 1, f 2, i 3, s 4, floats 7, ints 8, strings 9, type 20."""
    told = dict_of(content)
    name = bytes_of(told[1][0]).decode()
    match told[20][0]:
        case 2:
            return name, told[3][0]
        case 3:
            return name, bytes_of(told[4][0])
        case 6:
            data = bytes_of(told[7][0])
            return name, struct.unpack(f"<{len(data) // 4}f", data)
        case 7:
            return name, tuple(_varints(bytes_of(told[8][0])))
        case 8:
            return name, tuple(bytes_of(value) for value in told[9])
        case kind:
            raise ValueError(f"attribute {name} is of type {kind!r}")


def dict_of(content: bytes) -> dict[int, list[Wire]]:
    """A message's members by field number."""
    found: dict[int, list[Wire]] = {}
    for field, value in _members(content):
        found.setdefault(field, []).append(value)
    return found


def bytes_of(value: Wire) -> bytes:
    """A member that has a length. Raises ValueError for a number."""
    if isinstance(value, int):
        raise ValueError("a number where a message is due")
    return value


def _members(content: bytes) -> Iterator[tuple[int, Wire]]:
    """Field number and value of each member of a protobuf message. Raises ValueError, IndexError."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(content, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        part = content[at]
        value |= (part & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if part < 0x80:
            return value, at


def _varints(content: bytes) -> Iterator[int]:
    at = 0
    while at < len(content):
        value, at = _varint(content, at)
        yield value
