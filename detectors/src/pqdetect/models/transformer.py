"""The time-series transformer: its shape, its forward pass in numpy, and its ONNX graph.

A token is a window (``tst``) or a patch of 8 windows (``tst-p8``). Attention is causal and banded: a token
sees itself and ``lookback`` earlier ones in each layer, so that through all layers a score depends on exactly
``1 + sum(lookback)`` tokens, and on nothing later. Positions enter only as distances (a slope a head, as in
ALiBi, Press et al. 2022). Features enter as log(1 + x), normalised by what training saw: counts of one and of
ten thousand forged datagrams must both be visible. Both together make a stream cheap: keys and values of past
tokens are kept, one new token is one row of work, and a block of tokens at once gives the same scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pqdetect.models.onnxfile import INT64, Graph, Port

OPSETS = {"": 17}
FAR = -1e9
# Normalised features beyond this are cut: a flood may be a thousand times what training saw.
CLIP = 8.0

Weights = Mapping[str, NDArray[np.float32]]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    """All that fixes the graph but its weights."""

    features: int
    patch: int = 1
    lookback: tuple[int, ...] = (133, 133, 133)
    width: int = 128
    heads: int = 16
    hidden: int = 256

    @property
    def history_tokens(self) -> int:
        """Tokens a score depends on."""
        return 1 + sum(self.lookback)

    @property
    def history_windows(self) -> int:
        """Windows a score depends on."""
        return self.history_tokens * self.patch

    @property
    def kept(self) -> int:
        """Past tokens whose keys and values a stream keeps."""
        return max(self.lookback)

    @property
    def slopes(self) -> Floats:
        """Penalty a token of distance, one a head."""
        return (2.0 ** (-8.0 * np.arange(1, self.heads + 1) / self.heads)).astype(np.float32)

    def as_dict(self) -> dict[str, object]:
        """As a card holds it."""
        return {**asdict(self), "lookback": list(self.lookback)}


def names(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Names and sizes of the weights."""
    d, inner = shape.width, shape.hidden
    sizes: dict[str, tuple[int, ...]] = {"embed_w": (shape.features * shape.patch, d), "embed_b": (d,)}
    for layer in range(len(shape.lookback)):
        for norm in ("norm1", "norm2"):
            sizes |= {f"{layer}.{norm}_w": (d,), f"{layer}.{norm}_b": (d,)}
        for name in "qkvo":
            sizes |= {f"{layer}.{name}_w": (d, d), f"{layer}.{name}_b": (d,)}
        sizes |= {f"{layer}.up_w": (d, inner), f"{layer}.up_b": (inner,)}
        sizes |= {f"{layer}.down_w": (inner, d), f"{layer}.down_b": (d,)}
    return sizes | {"norm_w": (d,), "norm_b": (d,), "head_w": (d, 2), "head_b": (2,)}


def distances(tokens: int, past: int) -> NDArray[np.int64]:
    """(tokens, past + tokens): how far back each key lies; negative ones lie ahead."""
    return np.arange(tokens)[:, None] + past - np.arange(past + tokens)[None, :]


def empty(shape: Shape) -> tuple[Floats, int]:
    """Keys and values of no tokens, and how many these are."""
    return np.zeros((len(shape.lookback), 2, shape.kept, shape.width), np.float32), 0


def advance(shape: Shape, weights: Weights, x: Floats, past: Floats, known: int) -> tuple[Floats, Floats]:
    """Scores (T, 2) of T tokens after ``known`` earlier ones, and the next call's ``past``.

    Plain numpy, the same arithmetic as the graph: what the tests hold the graph and the training code
    against.
    """

    def norm(h: Floats, name: str) -> Floats:
        centred = h - h.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        scaled = centred / spread * weights[f"{name}_w"] + weights[f"{name}_b"]
        result: Floats = scaled.astype(np.float32)
        return result

    def linear(h: Floats, name: str) -> Floats:
        result: Floats = h @ weights[f"{name}_w"] + weights[f"{name}_b"]
        return result

    raw = (np.log1p(np.maximum(x, 0)) - weights["mean"]) / weights["std"]
    h = linear(np.clip(np.where(np.isnan(x), 0.0, raw), -CLIP, CLIP).astype(np.float32), "embed")
    tokens, size, kept = len(x), shape.width // shape.heads, shape.kept
    distance = distances(tokens, kept)
    visible = (distance >= 0) & (np.arange(kept + tokens) >= kept - known)
    present = np.empty_like(past)
    for layer, lookback in enumerate(shape.lookback):
        a = norm(h, f"{layer}.norm1")
        rows = [
            np.concatenate((past[layer, place], linear(a, f"{layer}.{n}"))) for place, n in enumerate("kv")
        ]
        present[layer] = [row[-kept:] for row in rows]
        q = linear(a, f"{layer}.q").reshape(tokens, shape.heads, size).swapaxes(0, 1)
        k, v = (row.reshape(kept + tokens, shape.heads, size).swapaxes(0, 1) for row in rows)
        weight = q @ k.swapaxes(1, 2) / np.sqrt(size) - shape.slopes[:, None, None] * distance
        masked = np.where(visible & (distance <= lookback), weight, FAR)
        shares = np.exp(masked - masked.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        h = h + linear(
            (shares @ v).swapaxes(0, 1).reshape(tokens, shape.width).astype(np.float32), f"{layer}.o"
        )
        inner: Floats = np.maximum(linear(norm(h, f"{layer}.norm2"), f"{layer}.up"), 0)
        h = h + linear(inner, f"{layer}.down")
    scores = 1 / (1 + np.exp(-linear(norm(h, "norm"), "head")))
    return scores.astype(np.float32), present


def forward(shape: Shape, weights: Weights, x: Floats) -> Floats:
    """Scores (T, 2) of T tokens from the start of a stream."""
    return advance(shape, weights, x, *empty(shape))[0]


def graph(shape: Shape, weights: Weights, notes: dict[str, str]) -> tuple[bytes, int]:
    """The ONNX file and its count of parameters.

    Inputs: ``x`` (T, features × patch) raw features, NaN where unknown; ``past`` (layers, 2, kept, width)
    keys and values of earlier tokens, newest last; ``known`` (1,) how many of them there are. Outputs:
    ``scores`` (T, 2) in 0..1 (ATTACK, DEGRADED) and ``present``, the next call's ``past``. ``weights`` holds
    ``mean`` and ``std`` too.
    """
    g = Graph("transformer")
    for name, value in weights.items():
        g.constant(name, value.astype(np.float32))
    layers, size, kept = len(shape.lookback), shape.width // shape.heads, shape.kept
    zero, one, floor = g.constant("zero", 0.0), g.constant("one", [1]), g.constant("far", FAR)
    i_zero, i_one = g.constant("i_zero", np.array(0, np.int64)), g.constant("i_one", np.array(1, np.int64))
    to_heads = g.constant("to_heads", [0, shape.heads, size])
    to_width, start = g.constant("to_width", [0, shape.width]), g.constant("start", [-kept])
    end, axis0 = g.constant("end", [2**62]), g.constant("axis0", [0])
    slopes = g.constant("slopes", -shape.slopes.reshape(-1, 1, 1))
    scale = g.constant("scale", float(1 / np.sqrt(size)))

    unit, unknown = g.constant("unit", 1.0), g.node("IsNaN", ["x"], "x_unknown")
    # Operators differ in what they make of NaN, so it is gone before the first of them.
    present = g.node("Relu", [g.node("Where", [unknown, zero, "x"], "x_present")], "x_positive")
    logs = g.node("Log", [g.node("Add", [present, unit], "x_plus_1")], "x_log")
    raw = g.node("Div", [g.node("Sub", [logs, "mean"], "x_centred"), "std"], "x_scaled")
    clean = g.node("Where", [unknown, zero, raw], "x_known")
    low, high = g.constant("clip_low", -CLIP), g.constant("clip_high", CLIP)
    h = _linear(g, g.node("Clip", [clean, low, high], "x_cut"), "embed", "h0")

    # How far back key j lies from token i, and which keys are there at all.
    rows = g.node("Gather", [g.node("Shape", ["x"], "x_shape"), i_zero], "rows", axis=0)
    columns = g.node("Add", [rows, g.constant("kept", np.array(kept, np.int64))], "columns")
    place = g.node("Range", ["kept", columns, i_one], "token_place")
    keys = g.node("Range", [i_zero, columns, i_one], "key_place")
    distance = g.node("Sub", [g.node("Unsqueeze", [place, one], "token_column"), keys], "distance")
    known = g.node("Sub", [g.constant("kept_row", [kept]), "known"], "first_known")
    there = g.node("GreaterOrEqual", [keys, known], "there")
    behind = g.node("And", [g.node("GreaterOrEqual", [distance, i_zero], "not_ahead"), there], "visible")
    bias = g.node("Mul", [g.node("Cast", [distance], "distance_f", to=1), slopes], "bias")

    presents = []
    for layer, lookback in enumerate(shape.lookback):
        p = f"{layer}."
        near = g.node(
            "LessOrEqual", [distance, g.constant(p + "lookback", np.array(lookback, np.int64))], p + "near"
        )
        seen = g.node("And", [behind, near], p + "seen")
        a = _norm(g, h, p + "norm1", p + "a")
        q = _heads(g, _linear(g, a, p + "q", p + "q_row"), p + "q_heads", to_heads, [1, 0, 2])
        past = g.node(
            "Gather", ["past", g.constant(p + "layer", np.array(layer, np.int64))], p + "past", axis=0
        )
        kept_rows = []
        heads = []
        for number, name in enumerate("kv"):
            index = g.constant(f"{p}{name}_index", np.array(number, np.int64))
            old = g.node("Gather", [past, index], f"{p}{name}_old", axis=0)
            new = _linear(g, a, p + name, f"{p}{name}_new")
            joined = g.node("Concat", [old, new], f"{p}{name}_all", axis=0)
            tail = g.node("Slice", [joined, start, end, axis0], f"{p}{name}_tail")
            kept_rows.append(g.node("Unsqueeze", [tail, axis0], f"{p}{name}_kept"))
            order = [1, 2, 0] if name == "k" else [1, 0, 2]
            heads.append(_heads(g, joined, f"{p}{name}_heads", to_heads, order))
        raw_weight = g.node("Mul", [g.node("MatMul", [q, heads[0]], p + "dot"), scale], p + "dot_scaled")
        biased = g.node("Add", [raw_weight, bias], p + "biased")
        weight = g.node(
            "Softmax", [g.node("Where", [seen, biased, floor], p + "masked")], p + "weight", axis=-1
        )
        mixed = g.node(
            "Transpose", [g.node("MatMul", [weight, heads[1]], p + "mixed")], p + "mixed_t", perm=[1, 0, 2]
        )
        out = _linear(g, g.node("Reshape", [mixed, to_width], p + "mixed_row"), p + "o", p + "attended")
        h = g.node("Add", [h, out], p + "h_mid")
        up = g.node(
            "Relu", [_linear(g, _norm(g, h, p + "norm2", p + "b"), p + "up", p + "up_row")], p + "up_pos"
        )
        h = g.node("Add", [h, _linear(g, up, p + "down", p + "down_row")], p + "h_out")
        pair = g.node("Concat", kept_rows, p + "pair", axis=0)
        presents.append(g.node("Unsqueeze", [pair, axis0], p + "present"))
    g.node("Concat", presents, "present", axis=0)
    g.node("Sigmoid", [_linear(g, _norm(g, h, "norm", "h_last"), "head", "logits")], "scores")

    state = (layers, 2, kept, shape.width)
    inputs = [Port("x", ("t", shape.features * shape.patch)), Port("past", state), Port("known", (1,), INT64)]
    data = g.encode(inputs, [Port("scores", ("t", 2)), Port("present", state)], OPSETS, notes)
    return data, sum(int(np.prod(size)) for size in names(shape).values())


def _linear(g: Graph, row: str, name: str, output: str) -> str:
    return g.node("Add", [g.node("MatMul", [row, f"{name}_w"], f"{output}:product"), f"{name}_b"], output)


def _norm(g: Graph, row: str, name: str, output: str) -> str:
    inputs = [row, f"{name}_w", f"{name}_b"]
    return g.node("LayerNormalization", inputs, output, axis=-1, epsilon=1e-5)


def _heads(g: Graph, row: str, output: str, to_heads: str, order: list[int]) -> str:
    return g.node("Transpose", [g.node("Reshape", [row, to_heads], f"{output}:split")], output, perm=order)
