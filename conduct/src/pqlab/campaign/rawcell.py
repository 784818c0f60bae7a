"""What a cell brings home, and the files it becomes: nothing here decides or measures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pqbase.documents import Json, whole_of
from pqevidence.exchange import flightlog
from pqevidence.plan import Cell
from pqlab.campaign.clock import Clock
from pqlab.campaign.journal import Journal
from pqlab.campaign.observers import OBSERVERS_SCHEMA
from pqlab.campaign.store import write_atomic, write_json


@dataclass
class RawCell:
    """What was gathered from both ends, by role."""

    counters: dict[str, Json] = field(default_factory=dict)
    windows: dict[str, Json] = field(default_factory=dict)
    streams: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    #: what every detector of the campaign had used when the measured window began, and when it ended
    usage: dict[str, dict[str, Json]] = field(default_factory=dict)
    #: the same of whoever observes and is observed, where a condition leaves one of them out
    observers: dict[str, Json] = field(default_factory=dict)


def write_raw(folder: Path, raw: RawCell, journal: Journal) -> None:
    """The raw files of a cell, in the bundle's layout. Streams that never came leave no file."""
    events = list(journal.events)
    for role, streams in raw.streams.items():
        for line in streams.get("events", []):
            events.append({"host": role, **json.loads(line)})
        _write_lines(folder / f"ledger.{role}.csv", streams.get("ledger"))
        _write_lines(folder / f"telemetry.{role}.lp", streams.get("telemetry"))
        _write_lines(folder / f"power.{role}.csv", streams.get("power") or None)
        bins = "bins.ndjson" if role == "drone" else f"bins.{role}.ndjson"
        _write_lines(folder / bins, streams.get("bins"))
        _write_lines(folder / "detector.ndjson", streams.get("detector"))
        if pieces := streams.get("tlog"):
            write_atomic(folder / flightlog.FILE, flightlog.joined(pieces))
        _write_lines(folder / "logs" / f"{role}.log", streams.get("log"))
    spans = [line for role in raw.streams for line in raw.streams[role].get("spans", [])]
    if any("spans" in streams for streams in raw.streams.values()):
        _write_lines(folder / "spans.ndjson", spans)
    if raw.counters:
        write_json(folder / "counters.json", dict(sorted(raw.counters.items())))
    if raw.windows:
        write_json(folder / "traffic.json", {"windows": raw.windows})
    if raw.usage:
        write_json(folder / "detectors.json", {"schema_version": "pqlab/detectors/v1", **raw.usage})
    if raw.observers:
        write_json(folder / "observers.json", {"schema_version": OBSERVERS_SCHEMA, **raw.observers})
    events.sort(key=lambda row: whole_of(row, "t_ns"))
    _write_lines(folder / "events.ndjson", [json.dumps(row, separators=(",", ":")) for row in events])
    _write_lines(folder / "logs" / "controller.log", journal.lines)


def write_unrun(folder: Path, cell: Cell, verdict: str, reason: str, clock: Clock) -> None:
    """A cell that was not carried out: `unsupported` or `not-run`, with its reason."""
    journal = Journal(clock)
    journal.event(verdict, reason=reason, suite_id=cell.suite_id)
    write_raw(folder, RawCell(), journal)


def plan_row(cell: Cell) -> Json:
    """The cell as it stands in plan.json."""
    return asdict(cell)


def _write_lines(path: Path, lines: list[str] | None) -> None:
    if lines is not None:
        write_atomic(path, "".join(f"{line}\n" for line in lines))
