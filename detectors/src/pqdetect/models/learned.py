"""The two learned detectors over an ONNX graph: boosted trees and the transformer.

Each has a streaming form (`step`, what the service runs) and one for whole recordings (`many`, what
evaluation runs); both give the same scores, which the tests check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Scores
from pqdetect.features import HISTORY_WINDOWS, FeatureStream, five_window_many, multi_scale_many
from pqdetect.models.session import Run
from pqdetect.models.transformer import Shape, empty

Floats = NDArray[np.float32]
INPUTS: Final = ("five_window", "multi_scale")
# Rows a call when a whole recording is scored: bounds the memory of wide inputs and of attention.
BLOCK: Final = 4096
TOKENS: Final = 64


class Trees:
    """Scores from one row of five-window or multi-scale features; keeps nothing itself."""

    def __init__(self, run: Run, given: str) -> None:
        if given not in INPUTS:
            raise ValueError(f"input {given!r} is none of {', '.join(INPUTS)}")
        self._run = run
        self.given = given

    def reset(self) -> None:
        """Nothing to forget: history is the stream's."""

    def mark(self) -> Callable[[], None]:
        """Nothing to bring back either."""
        return lambda: None

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the newest window."""
        row = stream.five_window() if self.given == "five_window" else stream.multi_scale()
        attack, degraded = self._run({"x": row[None]})[0][0]
        return Scores(float(attack), float(degraded))

    def many(self, rows: Floats) -> Floats:
        """(K, 2) scores of a recording's rows (K, features), a window that never came being a row of NaN."""
        wide = five_window_many(rows) if self.given == "five_window" else multi_scale_many(rows)
        return self.wide(wide)

    def wide(self, wide: Floats) -> Floats:
        """Scores of rows that were made wide already."""
        parts = [self._run({"x": wide[at : at + BLOCK]})[0] for at in range(0, len(wide), BLOCK)]
        return np.concatenate(parts).astype(np.float32) if parts else np.zeros((0, 2), np.float32)


class Transformer:
    """Scores from tokens as they come.

    With patches of n windows there are n interleaved streams of tokens, one for each remainder of the window
    number: every window ends a patch of one of them, so that a verdict comes with each window all the same.
    """

    def __init__(self, run: Run, shape: Shape) -> None:
        self._run = run
        self.shape = shape
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._past: dict[int, tuple[Floats, int]] = {}
        self._seen: dict[int, int] = {}
        self._resets = -1

    def mark(self) -> Callable[[], None]:
        """What brings the tokens of this moment back."""
        past, seen, resets = dict(self._past), dict(self._seen), self._resets

        def back() -> None:
            self._past, self._seen, self._resets = dict(past), dict(seen), resets

        return back

    def _advance(self, state: tuple[Floats, int], tokens: Floats) -> tuple[Floats, tuple[Floats, int]]:
        past, known = state
        scores, present = self._run({"x": tokens, "past": past, "known": np.array([known], np.int64)})
        return scores, (present, min(known + len(tokens), self.shape.kept))

    def step(self, stream: FeatureStream) -> Scores:
        """Scores at the newest window; what was not seen before it is taken from the stream's history."""
        if stream.resets != self._resets:
            self.reset()
            self._resets = stream.resets
        newest = stream.last_k
        if newest is None:
            raise ValueError("no window has been pushed")
        patch = self.shape.patch
        phase = newest % patch
        seen = self._seen.get(phase)
        if seen is not None and newest - seen == patch == 1:
            tokens, state = stream.latest[None], self._past[phase]
        else:
            tokens, state = self._catch_up(stream, newest, seen)
        scores, self._past[phase] = self._advance(state, tokens)
        self._seen[phase] = newest
        return Scores(float(scores[-1, 0]), float(scores[-1, 1]))

    def _catch_up(
        self, stream: FeatureStream, newest: int, seen: int | None
    ) -> tuple[Floats, tuple[Floats, int]]:
        patch = self.shape.patch
        rows, known = stream.sequence()
        began = int(np.argmax(known))  # the oldest window that is known
        count = HISTORY_WINDOWS - began
        wanted = -(-count // patch)
        fresh = seen is None or (newest - seen) // patch > wanted
        if seen is not None and not fresh:
            wanted = (newest - seen) // patch
        wanted = min(wanted, self.shape.history_tokens)
        padded = np.concatenate((np.full((patch, rows.shape[1]), np.nan, np.float32), rows))
        ends = [len(padded) - patch * age for age in range(wanted - 1, -1, -1)]
        tokens = np.stack([padded[end - patch : end].reshape(-1) for end in ends])
        phase = newest % patch
        return tokens, empty(self.shape) if fresh else self._past[phase]

    def many(self, rows: Floats) -> Floats:
        """(K, 2) scores of a recording's rows (K, features) from a cold start."""
        patch = self.shape.patch
        out = np.zeros((len(rows), 2), np.float32)
        block = max(TOKENS, self.shape.kept // 2)
        padded = np.concatenate((np.full((patch - 1, rows.shape[1]), np.nan, np.float32), rows))
        for phase in range(min(patch, len(rows))):
            places = np.arange(phase, len(rows), patch)
            state = empty(self.shape)
            for at in range(0, len(places), block):
                chosen = places[at : at + block]
                tokens = padded[chosen[:, None] + np.arange(patch)].reshape(len(chosen), -1)
                out[chosen], state = self._advance(state, tokens)
        return out
