"""Trains the transformer in PyTorch: the same arithmetic as `pqdetect.models.transformer`, with gradients.

Because attention is causal every position of a sequence is an example with its own label, so that one
sequence of 400 windows teaches 400 verdicts: that is what makes training on one core possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pqdetect.models.transformer import CLIP, FAR, Shape, distances, names
from pqdetect.training.data import Dataset, Progress

Floats = NDArray[np.float32]
SEQUENCE = 400  # windows a training sequence
STD_FLOOR = 0.25


@dataclass(frozen=True)
class Settings:
    """Of the optimiser; the number of steps is fixed so that a run can be repeated."""

    steps: int = 400
    batch: int = 8
    learning_rate: float = 1.5e-3
    warmup_steps: int = 30
    weight_decay: float = 0.01
    # Share of the sequences that are drawn around an attack or a loss.
    busy_share: float = 0.6
    positive_weight: float = 2.0

    def as_dict(self) -> dict[str, object]:
        """As a card holds it."""
        return asdict(self)


def normalisation(rows: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of log(1 + x) by feature, unknown values left out."""
    logs = np.log1p(np.maximum(rows, 0)).astype(np.float64)
    known = np.isfinite(logs)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, logs, 0.0)
    mean = filled.sum(axis=0) / count
    square = (filled**2).sum(axis=0) / count
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    return mean.astype(np.float32), np.maximum(std, STD_FLOOR).astype(np.float32)


class Network(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not where types are checked
    """Parameters by the names of the ONNX graph."""

    def __init__(self, shape: Shape, mean: Floats, std: Floats) -> None:
        super().__init__()
        self.shape = shape
        self.weights = torch.nn.ParameterDict()
        for name, size in names(shape).items():
            value = torch.zeros(size)
            if name.endswith("_w") and "norm" in name:
                value = torch.ones(size)
            elif name.endswith("_w"):
                torch.nn.init.xavier_uniform_(value)
                if name.endswith((".o_w", ".down_w")):
                    value /= math.sqrt(2 * len(shape.lookback))
            self.weights[name.replace(".", "/")] = torch.nn.Parameter(value)
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))
        self._biases: dict[int, list[torch.Tensor]] = {}

    def _w(self, name: str) -> torch.Tensor:
        return self.weights[name.replace(".", "/")]

    def _linear(self, h: torch.Tensor, name: str) -> torch.Tensor:
        return h @ self._w(f"{name}_w") + self._w(f"{name}_b")

    def _norm(self, h: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(h, (self.shape.width,), self._w(f"{name}_w"), self._w(f"{name}_b"))

    def _bias(self, tokens: int) -> list[torch.Tensor]:
        if tokens not in self._biases:
            far = torch.from_numpy(distances(tokens, 0))
            slope = torch.from_numpy(self.shape.slopes)[:, None, None] * far
            self._biases[tokens] = [
                torch.where((far >= 0) & (far <= lookback), -slope, torch.tensor(FAR)).float()[None]
                for lookback in self.shape.lookback
            ]
        return self._biases[tokens]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, T, 2) of raw features (B, T, features × patch)."""
        heads, size = self.shape.heads, self.shape.width // self.shape.heads
        batch, tokens = x.shape[:2]
        raw = (torch.log1p(torch.clamp(x, min=0)) - self.mean) / self.std
        h = self._linear(torch.clamp(torch.nan_to_num(raw, nan=0.0), -CLIP, CLIP), "embed")
        for layer, bias in enumerate(self._bias(tokens)):
            a = self._norm(h, f"{layer}.norm1")
            q, k, v = (
                self._linear(a, f"{layer}.{name}").view(batch, tokens, heads, size).transpose(1, 2)
                for name in "qkv"
            )
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            h = h + self._linear(mixed.transpose(1, 2).reshape(batch, tokens, -1), f"{layer}.o")
            inner = functional.relu(self._linear(self._norm(h, f"{layer}.norm2"), f"{layer}.up"))
            h = h + self._linear(inner, f"{layer}.down")
        return self._linear(self._norm(h, "norm"), "head")

    def scores(self, tokens: Floats) -> Floats:
        """(T, 2) scores of tokens (T, features × patch) by PyTorch, from the start of a stream."""
        with torch.no_grad():
            result: Floats = torch.sigmoid(self(torch.from_numpy(tokens)[None]))[0].numpy()
        return result

    def export(self) -> dict[str, Floats]:
        """Weights as numpy arrays, normalisation among them."""
        found = {name: self._w(name).detach().numpy().copy() for name in names(self.shape)}
        return found | {"mean": self.mean.numpy().copy(), "std": self.std.numpy().copy()}


class Draw:
    """Random sequences of recordings, around something for a part of them."""

    def __init__(self, data: Dataset, patch: int, busy_share: float, rng: np.random.Generator) -> None:
        self._data, self._patch, self._rng, self._busy_share = data, patch, rng, busy_share
        truth = data.truth
        self._starts = np.array([first for first, _ in data.spans])
        self._ends = np.array([end for _, end in data.spans])
        self._busy = np.flatnonzero(truth.attack | truth.degraded)
        self._labels = np.stack([truth.attack, truth.degraded], axis=1).astype(np.float32)
        self._known = np.stack([~truth.hidden, truth.degraded_known], axis=1).astype(np.float32)

    def one(self) -> tuple[Floats, Floats, Floats]:
        """Tokens (phases, T, features × patch), labels and known flags (phases, T, 2)."""
        rng, patch = self._rng, self._patch
        if len(self._busy) and rng.random() < self._busy_share:
            centre = int(self._busy[rng.integers(len(self._busy))])
        else:
            centre = int(rng.integers(len(self._data.rows)))
        place = int(np.searchsorted(self._starts, centre, side="right")) - 1
        first, end = int(self._starts[place]), int(self._ends[place])
        length = SEQUENCE + patch - 1
        begin = max(min(centre - int(rng.integers(SEQUENCE)), end - length), first)
        stop = min(begin + length, end)
        rows = np.full((length, self._data.rows.shape[1]), np.nan, np.float32)
        labels, known = np.zeros((length, 2), np.float32), np.zeros((length, 2), np.float32)
        rows[: stop - begin] = self._data.rows[begin:stop]
        labels[: stop - begin], known[: stop - begin] = self._labels[begin:stop], self._known[begin:stop]
        # Patch j of phase p ends at window p + patch − 1 + patch × j.
        last = np.arange(patch)[:, None] + patch - 1 + patch * np.arange(SEQUENCE // patch)[None, :]
        tokens = rows[last[:, :, None] + np.arange(1 - patch, 1)]
        return tokens.reshape(patch, SEQUENCE // patch, -1), labels[last], known[last]

    def batch(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Several of them."""
        x, y, known = zip(*(self.one() for _ in range(count)), strict=True)
        return tuple(torch.from_numpy(np.concatenate(part)) for part in (x, y, known))


def train(
    data: Dataset, shape: Shape, settings: Settings, seed: int, tell: Callable[[float], None] | None = None
) -> Network:
    """One trained model. Same data, settings, seed and PyTorch on one thread: same model."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    mean, std = normalisation(data.rows)
    network = Network(shape, np.tile(mean, shape.patch), np.tile(std, shape.patch))
    draw = Draw(data, shape.patch, settings.busy_share, np.random.default_rng([seed, 3]))
    decayed = [p for p in network.parameters() if p.dim() > 1]
    plain = [p for p in network.parameters() if p.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98))

    def speed(step: int) -> float:
        if step < settings.warmup_steps:
            return (step + 1) / settings.warmup_steps
        done = (step - settings.warmup_steps) / max(settings.steps - settings.warmup_steps, 1)
        return 0.5 * (1 + math.cos(math.pi * done)) + 0.01

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, speed)
    progress = Progress(f"transformer, patches of {shape.patch}, seed {seed}", settings.steps)
    heavy = torch.tensor([settings.positive_weight, settings.positive_weight])
    for step in range(settings.steps):
        x, y, known = draw.batch(settings.batch)
        loss_each = functional.binary_cross_entropy_with_logits(
            network(x), y, reduction="none", pos_weight=heavy
        )
        loss = (loss_each * known).sum() / known.sum().clamp(min=1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ValueError(f"the loss is {value} at step {step} (seed {seed}): lower the learning rate")
        progress.at(step + 1, f"(loss {value:.4f})")
        if tell is not None:
            tell(value)
    return network
