"""A cell of a bundle as a detector's recording: what the drone saw, and what really happened.

A folder with `bins.ndjson` (the drone's own export, up to a detector's canary) and `truth.json`
(pqdetect/truth/v1): episodes from the attacker's account, loss from the join of both ends' ledgers. Detectors
are evaluated on these without anything else of the lab. Not in scope: labels, which follow from truth
(pqdetect.recording).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import rows_of, whole_of
from pqevidence.errors import LabError
from pqevidence.record.attack import REFUSED, SentEpisode, sent_episodes
from pqevidence.record.ledger import Column
from pqevidence.record.raw import Json, RawCell, RawDataError, load_cell, load_run, read_object
from pqevidence.scenario.attacks import BENIGN
from pqevidence.scenario.conditions import routed

BINS: Final = "bins.ndjson"
TRUTH: Final = "truth.json"
TRUTH_SCHEMA: Final = "pqdetect/truth/v1"
FEED_SCHEMA: Final = "pqtunnel/feed/v1"
BIN_NS: Final = 20_000_000
WINDOW_BINS: Final = 30
WINDOW_NS: Final = WINDOW_BINS * BIN_NS
#: a datagram is refused this much after it was sent at the latest, a full queue of the router included
_REACH_NS: Final = 1_000_000_000
_FELT: Final = (*REFUSED, "queue_full")


@dataclass(frozen=True)
class Seen:
    """What of bins.ndjson is needed here: numbers of the first and last window, refusals by bin."""

    first_k: int
    last_k: int
    refused: dict[int, int]


def write_recordings(bundle: Path, out: Path) -> tuple[list[Path], list[str]]:
    """One folder a passing cell that holds bins; (folders, why each other cell is left out).

    Raises LabError when nothing is left, or a raw file is damaged.
    """
    data = bundle / "data"
    run = load_run(data)
    written, left_out = [], []
    for row in sorted(rows_of(run.plan, "cells"), key=lambda row: whole_of(row, "position")):
        folder = data / "cells" / str(row["cell_id"])
        verdict = _verdict(folder)
        if verdict != "pass" or not (folder / BINS).is_file():
            left_out.append(f"{row['cell_id']}: {verdict if verdict != 'pass' else f'no {BINS}'}")
            continue
        target = out / f"{whole_of(row, 'position'):04d}-{row['condition']}-{row['cell_id']}"
        target.mkdir(parents=True, exist_ok=True)
        cell = load_cell(folder)
        end_k = canary_window(cell)
        seen = read_seen(folder / BINS, end_k)
        lines = (folder / BINS).read_text(encoding="utf-8").splitlines(keepends=True)
        (target / BINS).write_text("".join(line for line in lines if _number(line) < end_k), encoding="utf-8")
        run_id = str(run.plan.get("run_id"))
        condition = run.condition(str(row["condition"]))
        truth = truth_of(cell, seen, dict(row), condition, run_id)
        (target / TRUTH).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
        written.append(target)
    if not written:
        raise LabError(
            "no-recording",
            f"no cell of {bundle.name} holds what its drone saw",
            "; ".join(left_out[:3]),
            "run a scenario whose conditions have an attack or a detector",
        )
    return written, left_out


def canary_window(cell: RawCell) -> float:
    """Number of the first window that holds something of the canary: nothing from there on is a recording's.
    Infinite where there was none."""
    canary = cell.canary
    if canary is None:
        return math.inf
    begun = [
        int(side["open_ns"])
        for side in (canary.traffic or {}).values()
        if isinstance(side, dict) and side.get("open_ns")
    ]
    begun += [int(row["t_on_ns"]) for row in canary.truth or [] if row.get("t_on_ns")]
    return min(begun, default=math.inf) // WINDOW_NS


def _number(text: str) -> int:
    """The window that a line of bins.ndjson is about; -1: the header."""
    row = json.loads(text)
    return int(row[0]) // WINDOW_BINS if isinstance(row, list) else int(row.get("k", -1))


def _verdict(folder: Path) -> str:
    path = folder / "record.json"
    return str(read_object(path).get("verdict")) if path.is_file() else "no record"


def truth_of(cell: RawCell, seen: Seen, plan_cell: Json, condition: Json, run_id: str) -> Json:
    """truth.json of one cell, as the drone's side of the link has it."""
    episodes = sent_episodes(cell) if cell.attack is not None else []
    return {
        "schema": TRUTH_SCHEMA,
        "scenario_id": f"{run_id}/{plan_cell['cell_id']}",
        "kind": _theme(episodes, condition),
        "profile": str(condition.get("name")) if routed(condition) else "direct",
        "seed": int(plan_cell["seed"]),
        "source": "lab",
        "t0_ns": seen.first_k * WINDOW_NS,
        "t1_ns": (seen.last_k + 1) * WINDOW_NS,
        # what is benign is no attack, however visible
        "episodes": [_episode(e, seen) for e in episodes if not e.asked.benign and e.t_on_ns is not None],
        "loss": _loss(cell, seen),
    }


def _theme(episodes: list[SentEpisode], condition: Json) -> str:
    kinds = [e.asked.kind for e in episodes]
    harmful = [kind for kind in kinds if kind not in BENIGN]
    return (harmful or kinds or [str(condition.get("name"))])[0]


def _episode(told: SentEpisode, seen: Seen) -> Json:
    assert told.t_on_ns is not None and told.t_off_ns is not None
    first, last = told.t_on_ns // BIN_NS, (told.t_off_ns + _REACH_NS) // BIN_NS
    felt = sum(count for number, count in seen.refused.items() if first <= number <= last)
    return {
        "kind": told.asked.kind,
        "t_on_ns": told.t_on_ns,
        "t_off_ns": told.t_off_ns,
        "rate_pps": told.asked.rate_pps,
        "visible": felt > 0,
        "sent_count": told.sent,
    }


def _loss(cell: RawCell, seen: Seen) -> Json | None:
    """Packets by the window in which they were sent; None without both ledgers."""
    if set(cell.ledgers) != {"drone", "gcs"}:
        return None
    columns: dict[str, list[float]] = {}
    for name, sender, receiver in (("in", "gcs", "drone"), ("out", "drone", "gcs")):
        sent, received = _by_window(cell.ledgers[sender].tx, cell.ledgers[receiver].rx, seen)
        columns |= {f"sent_{name}": sent, f"received_{name}": received}
    return dict(columns)


def _by_window(sender: Column, receiver: Column, seen: Seen) -> tuple[list[float], list[float]]:
    length = seen.last_k - seen.first_k + 1
    sent, received = [0.0] * length, [0.0] * length
    arrived = set(receiver.key)
    for key, t_ns in zip(sender.key, sender.t_in_ns, strict=True):
        place = t_ns // WINDOW_NS - seen.first_k
        if 0 <= place < length:
            sent[place] += 1
            received[place] += key in arrived
    return sent, received


def read_seen(path: Path, end_k: float = math.inf) -> Seen:
    """Windows and refusals of a stream `bins`, up to window `end_k`. Raises RawDataError where it is none."""
    windows: list[int] = []
    refused: dict[int, int] = {}
    places: list[int] = []
    with path.open(encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            try:
                row: object = json.loads(text)
                if number == 1:
                    head = row if isinstance(row, dict) else {}
                    if head["schema"] != FEED_SCHEMA or head["bin_ns"] != BIN_NS:
                        raise ValueError(f"no header of {FEED_SCHEMA}")
                    places = [head["fields"].index(name) for name in _FELT if name in head["fields"]]
                elif isinstance(row, list):
                    count = sum(int(row[1][place]) for place in places)
                    if count and _number(text) < end_k:
                        refused[int(row[0])] = count
                elif not isinstance(row, dict):
                    raise TypeError("it is neither a list nor an object")
                elif int(row["k"]) < end_k:
                    windows.append(int(row["k"]))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise RawDataError(path, f"line {number}: {error!r}") from error
    if not windows:
        raise RawDataError(path, "it holds no whole window")
    return Seen(min(windows), max(windows), refused)
