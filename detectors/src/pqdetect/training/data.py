"""Recordings laid end to end as arrays: one row of features a window, and the truth of each."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pqdetect.evaluation.truth import Episode, Flags, Truth
from pqdetect.features import features_many
from pqdetect.feed import WINDOW_NS
from pqdetect.recording import Recording, labels

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Dataset:
    """Rows (K, features) of all windows, NaN where a window never came, and their truth."""

    rows: Rows
    truth: Truth
    # (first, end) of each recording, and its attack kind or benign theme.
    spans: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Checksum of rows and labels: the same data gave the same models."""
        total = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        total.update(self.truth.attack.tobytes() + self.truth.degraded.tobytes())
        return total.hexdigest()

    def recordings(self) -> Iterator[Rows]:
        """The rows of each recording."""
        for first, end in self.spans:
            yield self.rows[first:end]


def collect(recordings: Iterable[Recording]) -> Dataset:
    """Features and labels of recordings; raises ValueError when there is none."""
    rows: list[Rows] = []
    parts: dict[str, list[Flags]] = {name: [] for name in ("attack", "hidden", "degraded", "known")}
    ids: list[str] = []
    kinds: list[str] = []
    spans: list[tuple[int, int]] = []
    episodes: list[Episode] = []
    at = 0
    for number, recording in enumerate(recordings):
        made = features_many(recording.counts, recording.deltas)
        made[~recording.came] = np.nan
        told = labels(recording)
        rows.append(made)
        parts["attack"].append(told.attack)
        parts["hidden"].append((told.episode >= 0) & ~told.attack)
        parts["degraded"].append(told.degraded)
        parts["known"].append(told.degraded_known)
        for label, carried in zip(told.episodes, recording.truth.episodes, strict=True):
            if label.visible and label.last >= label.first:
                end_ns = (recording.first_k + label.first + 1) * WINDOW_NS
                episodes.append(
                    Episode(
                        number,
                        at + label.first,
                        at + label.last,
                        label.kind,
                        label.rate_pps,
                        recording.truth.profile,
                        label.loss,
                        (end_ns - carried.t_on_ns) / 1e9,
                    )
                )
        ids.append(recording.truth.scenario_id)
        kinds.append(recording.truth.kind)
        spans.append((at, at + len(made)))
        at += len(made)
    if not rows:
        raise ValueError("no recording")
    starts = np.zeros(at, dtype=np.bool_)
    starts[[first for first, _ in spans]] = True
    lengths = [end - first for first, end in spans]
    truth = Truth(
        tuple(ids),
        np.repeat(np.arange(len(ids), dtype=np.int32), lengths),
        starts,
        np.concatenate(parts["attack"]),
        np.concatenate(parts["hidden"]),
        np.concatenate(parts["degraded"]),
        np.concatenate(parts["known"]),
        tuple(episodes),
    )
    return Dataset(np.concatenate(rows), truth, tuple(spans), tuple(kinds))


def end_to_end(parts: Iterable[Dataset]) -> Dataset:
    """Several datasets as if their recordings had been collected at once; raises ValueError for none."""
    held = list(parts)
    if not held:
        raise ValueError("no recording")
    episodes: list[Episode] = []
    spans: list[tuple[int, int]] = []
    numbers: list[NDArray[np.int32]] = []
    at = count = 0
    for part in held:
        episodes += [
            replace(one, scenario=one.scenario + count, first=one.first + at, last=one.last + at)
            for one in part.truth.episodes
        ]
        spans += [(first + at, end + at) for first, end in part.spans]
        numbers.append(part.truth.scenario + np.int32(count))
        at, count = at + len(part.rows), count + len(part.spans)
    truths = [part.truth for part in held]
    truth = Truth(
        tuple(name for one in truths for name in one.scenario_ids),
        np.concatenate(numbers),
        np.concatenate([one.starts for one in truths]),
        np.concatenate([one.attack for one in truths]),
        np.concatenate([one.hidden for one in truths]),
        np.concatenate([one.degraded for one in truths]),
        np.concatenate([one.degraded_known for one in truths]),
        tuple(episodes),
    )
    kinds = tuple(kind for part in held for kind in part.kinds)
    return Dataset(np.concatenate([part.rows for part in held]), truth, tuple(spans), kinds)


def prefix(data: Dataset, share: float) -> Dataset:
    """The first recordings of a dataset; sorts of recordings come interleaved, so it is a fair sample."""
    count = max(round(len(data.spans) * share), 1)
    end = data.spans[count - 1][1]
    truth = data.truth
    cut = type(truth)(
        truth.scenario_ids[:count],
        truth.scenario[:end],
        truth.starts[:end],
        truth.attack[:end],
        truth.hidden[:end],
        truth.degraded[:end],
        truth.degraded_known[:end],
        tuple(episode for episode in truth.episodes if episode.last < end),
    )
    return Dataset(data.rows[:end], cut, data.spans[:count], data.kinds[:count])


class Progress:
    """Lines of progress with an ETA, at most one each few seconds."""

    def __init__(self, what: str, total: float, every_s: float = 5.0) -> None:
        self._what, self._total, self._every_s = what, total, every_s
        self._began = self._told = time.monotonic()

    def at(self, done: float, note: str = "") -> None:
        """Say how far it is."""
        now = time.monotonic()
        # Of what was over at once there is nothing to say.
        told = self._told > self._began
        if now - self._told < self._every_s and (done < self._total or not told):
            return
        self._told = now
        spent = now - self._began
        left = spent * (self._total - done) / done if done else float("inf")
        eta = f"{left:.0f} s left" if done < self._total else f"took {spent:.0f} s"
        print(
            f"  {self._what}: {done:.0f} of {self._total:.0f}, {eta} {note}".rstrip(),
            file=sys.stderr,
            flush=True,
        )
