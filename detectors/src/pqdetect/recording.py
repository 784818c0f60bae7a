"""A recording: windows of one feed together with what really happened on the link.

A folder with `bins.ndjson` (the agent's stream `bins`: header, one line a bin, one a window) and `truth.json`
(`pqdetect/truth/v1`). The simulator makes the same object without files. Labels come from truth alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pqbase.documents import Json, number_or_none, part_of
from pqdetect.errors import FeedError, RecordingError
from pqdetect.feed import (
    BIN_NS,
    DELTAS,
    FIELDS,
    SCHEMA,
    WINDOW_BINS,
    WINDOW_NS,
    Floats,
    WindowInput,
    places,
    window_of,
)

TRUTH_SCHEMA: Final = "pqdetect/truth/v1"
BINS_FILE: Final = "bins.ndjson"
TRUTH_FILE: Final = "truth.json"
DEGRADED_LOSS: Final = 0.3
"""DEGRADED: more than this share of what the peer sent did not arrive …"""
DEGRADED_WINDOWS: Final = 3
"""… over this many consecutive windows, the labelled one being the last."""
MIN_SENT: Final = 4
"""Packets that the peer must have sent in those windows: a share of fewer is not a figure."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Episode:
    """One attack as it was carried out."""

    kind: str
    t_on_ns: int
    """First and last moment at which it reached the endpoint's host, realtime ns."""
    t_off_ns: int
    rate_pps: float
    """Nominal rate while on, packets per second."""
    visible: bool | None
    """Did a forged, replayed or foreign datagram reach the socket or the interface? None: not known."""
    sent_count: int | None
    """Datagrams sent, None where nobody counted."""


@dataclass(frozen=True)
class LinkTruth:
    """What both ends counted, by window: (K,) each, NaN where it is not known.

    `in` is towards the feed's endpoint. A packet belongs to the window in which it was sent.
    """

    sent_in: Floats
    received_in: Floats
    sent_out: Floats
    received_out: Floats

    def loss_in(self) -> Floats:
        """Share of the window's incoming packets that never arrived; NaN where none was sent."""
        return _loss(self.sent_in, self.received_in)

    def loss_out(self) -> Floats:
        """The same of outgoing packets."""
        return _loss(self.sent_out, self.received_out)


@dataclass(frozen=True)
class Truth:
    """What a recording shows, and what happened in it."""

    scenario_id: str
    kind: str
    """Attack kind, or the benign theme (`quiet`, `fade`, …) of a recording without one."""
    profile: str
    """Link profile."""
    seed: int
    source: Literal["simulator", "lab"]
    t0_ns: int
    t1_ns: int
    episodes: tuple[Episode, ...] = ()
    loss: LinkTruth | None = None
    """None: neither counted nor simulated."""


@dataclass(frozen=True)
class Recording:
    """Consecutive windows `first_k`, `first_k` + 1, …; windows that never came are rows of zeros with
    `came` False."""

    truth: Truth
    first_k: int
    counts: NDArray[np.integer]
    """(K, 30, len(FIELDS))."""
    deltas: Floats
    """(K, len(DELTAS)), NaN where not read."""
    came: Flags
    """(K,)."""

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def hours(self) -> float:
        """Length of the recording."""
        return len(self) * WINDOW_NS / 3.6e12

    def windows(self) -> Iterator[WindowInput]:
        """The windows that came, in order."""
        for place in np.flatnonzero(self.came):
            counts = self.counts[place].astype(np.int64)
            yield WindowInput(self.first_k + int(place), counts, self.deltas[place])


@dataclass(frozen=True)
class EpisodeLabel:
    """An episode in windows of its recording."""

    first: int
    """Places, not numbers: index of the first and last window that it overlaps, within the recording."""
    last: int
    kind: str
    rate_pps: float
    visible: bool | None
    loss: float | None
    """Incoming loss over its windows, pooled; None where it is not known or nothing was sent."""


@dataclass(frozen=True)
class Labels:
    """Truth by window."""

    attack: Flags
    """(K,): the window overlaps a visible episode."""
    degraded: Flags
    """(K,): incoming loss over the last three windows, pooled, is above 30 %. False where not known."""
    degraded_known: Flags
    """(K,): three windows are there and enough was sent in them."""
    episodes: tuple[EpisodeLabel, ...]
    episode: NDArray[np.int64]
    """(K,): place in `episodes` of the episode that the window overlaps, visible or not; -1: none."""


def labels(recording: Recording) -> Labels:
    """Labels of each window, from truth alone."""
    count = len(recording)
    attack, episode = np.zeros(count, dtype=np.bool_), np.full(count, -1, dtype=np.int64)
    found: list[EpisodeLabel] = []
    loss = recording.truth.loss
    for place, one in enumerate(recording.truth.episodes):
        first = max(0, one.t_on_ns // WINDOW_NS - recording.first_k)
        last = min(count - 1, one.t_off_ns // WINDOW_NS - recording.first_k)
        span = slice(first, last + 1)
        found.append(EpisodeLabel(first, last, one.kind, one.rate_pps, one.visible, _pooled(loss, span)))
        episode[span] = place
        if one.visible:
            attack[span] = True
    degraded, known = _degraded(loss, count)
    return Labels(attack, degraded, known, tuple(found), episode)


def _degraded(loss: LinkTruth | None, count: int) -> tuple[Flags, Flags]:
    none = np.zeros(count, dtype=np.bool_)
    if loss is None or count < DEGRADED_WINDOWS:
        return none, none.copy()
    sent, received = _last_windows(loss.sent_in), _last_windows(loss.received_in)
    known = np.isfinite(sent) & np.isfinite(received) & (np.nan_to_num(sent) >= MIN_SENT)
    share = 1.0 - np.where(known, received, 1.0) / np.where(known, sent, 1.0)
    return known & (share > DEGRADED_LOSS), known


def _last_windows(values: Floats) -> Floats:
    """Sum over the window and the two before it; NaN at the beginning."""
    total = np.full_like(values, np.nan)
    total[DEGRADED_WINDOWS - 1 :] = sum(
        values[back : len(values) - (DEGRADED_WINDOWS - 1 - back)] for back in range(DEGRADED_WINDOWS)
    )
    return total


def _pooled(loss: LinkTruth | None, span: slice) -> float | None:
    if loss is None:
        return None
    sent, received = float(np.nansum(loss.sent_in[span])), float(np.nansum(loss.received_in[span]))
    return max(0.0, 1.0 - received / sent) if sent > 0 else None


def _loss(sent: Floats, received: Floats) -> Floats:
    known = sent > 0
    share: Floats = np.where(known, 1.0 - received / np.where(known, sent, 1.0), np.nan)
    return share


# ---------------------------------------------------------------------- files


def write(recording: Recording, folder: Path) -> None:
    """Write a recording; the folder is made. Raises OSError."""
    write_texts(texts(recording), folder)


def write_texts(content: Mapping[str, str], folder: Path) -> None:
    """Write the files of a recording; the folder is made. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (BINS_FILE, TRUTH_FILE):
        (folder / name).write_text(content[name])


def texts(recording: Recording) -> dict[str, str]:
    """The files of a recording by name."""
    header = {"schema": SCHEMA, "role": "drone", "bin_ns": BIN_NS, "fields": list(FIELDS)}
    lines = [json.dumps(header)]
    for place in np.flatnonzero(recording.came):
        k = recording.first_k + int(place)
        counts = recording.counts[place]
        for position in np.flatnonzero(counts.any(axis=1)):
            row = [k * WINDOW_BINS + int(position), counts[position].tolist()]
            lines.append(json.dumps(row, separators=(",", ":")))
        lines.append(json.dumps(_window_line(k, recording.deltas[place]), separators=(",", ":")))
    truth = json.dumps(_truth_object(recording.truth), indent=1)
    return {BINS_FILE: "\n".join(lines) + "\n", TRUTH_FILE: truth + "\n"}


def _window_line(k: int, deltas: Floats) -> Json:
    named = {
        name: None if np.isnan(value) else int(value) for name, value in zip(DELTAS, deltas, strict=True)
    }
    interface = {name[3:]: value for name, value in named.items() if name.startswith("if_")}
    udp = {name[4:]: value for name, value in named.items() if name.startswith("udp_")}
    known = [None if all(one is None for one in part.values()) else part for part in (interface, udp)]
    return {"k": k, "interface": known[0], "udp": known[1]}


def _truth_object(truth: Truth) -> Json:
    loss = truth.loss
    columns = (
        None
        if loss is None
        else {
            name: _nullable(getattr(loss, name))
            for name in ("sent_in", "received_in", "sent_out", "received_out")
        }
    )
    return {
        "schema": TRUTH_SCHEMA,
        "scenario_id": truth.scenario_id,
        "kind": truth.kind,
        "profile": truth.profile,
        "seed": truth.seed,
        "source": truth.source,
        "t0_ns": truth.t0_ns,
        "t1_ns": truth.t1_ns,
        "episodes": [asdict(one) for one in truth.episodes],
        "loss": columns,
    }


def _nullable(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def read(folder: Path) -> Recording:
    """Read a recording; raises RecordingError that names file and line."""
    truth = read_truth(folder / TRUTH_FILE)
    first_k, counts, deltas, came = read_bins(folder / BINS_FILE)
    if truth.loss is not None and len(truth.loss.sent_in) != len(counts):
        raise RecordingError(
            f"{folder}: truth has {len(truth.loss.sent_in)} windows of loss, the bins have {len(counts)}"
        )
    return Recording(truth, first_k, counts, deltas, came)


def read_truth(path: Path) -> Truth:
    """The truth of a recording; raises RecordingError."""
    try:
        given = json.loads(path.read_text())
        if given.get("schema") != TRUTH_SCHEMA:
            raise RecordingError(f"{path}: schema is {given.get('schema')!r}, not {TRUTH_SCHEMA}")
        loss = given["loss"]
        return Truth(
            given["scenario_id"],
            given["kind"],
            given["profile"],
            given["seed"],
            given["source"],
            given["t0_ns"],
            given["t1_ns"],
            tuple(Episode(**one) for one in given["episodes"]),
            None if loss is None else LinkTruth(**{name: _column(loss[name]) for name in loss}),
        )
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path}: not a truth file ({error!r})") from error


def _column(values: list[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def read_bins(path: Path) -> tuple[int, NDArray[np.int64], Floats, Flags]:
    """(first window, counts (K, 30, fields), deltas (K, 8), came (K,)) of a stream `bins`.

    A window came where its own line is there. Raises RecordingError that names the line.
    """
    bins: dict[int, list[int]] = {}
    lines: dict[int, Floats] = {}
    try:
        with path.open() as source:
            header = json.loads(source.readline() or "null")
            if not isinstance(header, dict) or header.get("schema") != SCHEMA:
                raise RecordingError(f"{path}:1: no header of schema {SCHEMA}")
            order = places(header["fields"])
            for number, text in enumerate(source, 2):
                try:
                    _take_line(json.loads(text), order, bins, lines)
                except (ValueError, KeyError, TypeError, IndexError) as error:
                    raise RecordingError(f"{path}:{number}: {error!r}") from error
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    except (FeedError, ValueError, KeyError) as error:
        raise RecordingError(f"{path}:1: {error}") from error
    if not lines:
        raise RecordingError(f"{path}: holds no whole window")
    first_k, last_k = min(lines), max(lines)
    counts = np.zeros((last_k - first_k + 1, WINDOW_BINS, len(FIELDS)), dtype=np.int64)
    deltas = np.full((len(counts), len(DELTAS)), np.nan)
    came = np.zeros(len(counts), dtype=np.bool_)
    for k, row in lines.items():
        deltas[k - first_k], came[k - first_k] = row, True
    for bin_number, fields in bins.items():
        place = window_of(bin_number) - first_k
        if 0 <= place < len(counts) and came[place]:
            counts[place, bin_number % WINDOW_BINS] = fields
    return first_k, counts, deltas, came


def _take_line(
    line: object, order: list[int], bins: dict[int, list[int]], windows: dict[int, Floats]
) -> None:
    if isinstance(line, list):
        bins[int(line[0])] = [int(line[1][place]) for place in order]
    elif isinstance(line, dict):
        windows[int(line["k"])] = deltas_of(line)
    else:
        raise TypeError(f"{type(line).__name__} is no line of it")


def deltas_of(line: Json) -> Floats:
    """(8,) from a window's line `{"k", "interface", "udp"}`; a missing part or value is NaN."""
    interface, udp = part_of(line, "interface", {}), part_of(line, "udp", {})
    values = [
        number_or_none(interface, name[3:]) if name.startswith("if_") else number_or_none(udp, name[4:])
        for name in DELTAS
    ]
    return _column(values)
