"""Detectors: verdicts that add up, a detector that could see, others that slept, the model that is named."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from pqdetect.service.verdict import BINS, DEADLINE_NS, SCHEMA, STATES, window_end_ns
from pqlab.record.detector import (
    HIDDEN,
    NONE,
    NOT_RAISED,
    canary_alarm,
    canary_hidden,
    detector_of,
    due_windows,
    episodes_of,
    told_of,
)
from pqlab.record.raw import Json, RawDataError
from pqlab.verify.result import Tally
from pqlab.verify.view import CellView

ROUNDING_MS = 0.001
#: fields of the sealed side's bins that make up `packets_seen`
_SEEN = ("rx_datagrams", "tx_data")
_COUNTED = ("detector_windows_due_count", "detector_verdict_count", "detector_deadline_missed_count")


def _named(cell: CellView) -> str:
    return detector_of(cell.run.condition(str(cell.plan["condition"])))


def verdicts(cell: CellView, tally: Tally) -> None:
    """Each line's arithmetic, one line a window, nothing said in a state that says nothing, and the record's
    counts."""
    lines = cell.raw.detector or []
    if _named(cell) == NONE:
        tally.require(not lines, f"{cell.label}: {len(lines)} verdict lines in a cell without a detector")
        return
    tally.see()
    for line in lines:
        if problem := _line_problem(line):
            tally.fail(f"{cell.label}: window {line.get('k')}: {problem}")
            return
    start_ns, end_ns = cell.wall
    odd = [line["k"] for line in lines if not start_ns <= int(line["t_ns"]) <= end_ns]
    tally.require(not odd, f"{cell.label}: windows {odd[:3]} were told outside the cell")
    judged = [line for line in lines if line["history_windows"]]
    for before, after in pairwise(judged):
        skipped = int(after["k"]) - int(before["k"]) - 1
        if int(before["history_windows"]) >= int(after["history_windows"]) == 1:
            continue  # numbering may begin anew where history does
        tally.require(
            skipped == int(after["gap_windows"]) >= 0,
            f"{cell.label}: window {after['k']} follows {before['k']}, its gap is {after['gap_windows']}",
        )
    _recount(cell, tally)
    _seen(cell, judged, tally)


def _line_problem(line: Json) -> str | None:
    try:
        late_ns = int(line["t_ns"]) - window_end_ns(int(line["k"]))
        ready = line["state"] == "ready"
        told = [line[name] for name in ("attack", "degraded")]
        if line["schema"] != SCHEMA or line["state"] not in STATES:
            return f"schema {line['schema']!r}, state {line['state']!r}"
        if abs(float(line["latency_ms"]) - late_ns / 1e6) > ROUNDING_MS or late_ns < 0:
            return f"latency {line['latency_ms']} ms, stamp and window give {late_ns / 1e6:.3f} ms"
        if line["deadline_met"] is not (ready and late_ns <= DEADLINE_NS):
            return f"deadline_met {line['deadline_met']} at {late_ns / 1e6:.0f} ms in state {line['state']}"
        if any((value is None) is ready or value not in (None, True, False) for value in told):
            return f"state {line['state']} and verdicts {told}"
    except (KeyError, TypeError, ValueError) as error:
        return f"cannot be read as a verdict: {error!r}"
    return None


def _recount(cell: CellView, tally: Tally) -> None:
    told = told_of(cell.raw, cell.plane)
    if told is None:
        tally.fail(f"{cell.label}: no verdict line, or no traffic window")
        return
    missed = sum(1 for line in told.ordered if not line["deadline_met"])
    for name, due in zip(_COUNTED, (len(told.due), len(told.verdicts), missed), strict=True):
        have = cell.value("S", name)
        tally.require(have == due, f"{cell.label}: {name} {have}, the lines give {due}")


def _seen(cell: CellView, judged: list[Json], tally: Tally) -> None:
    """What a verdict says it saw is what the endpoint's bins hold for that window."""
    path = cell.folder / "bins.ndjson"
    if not path.is_file():
        tally.fail(f"{cell.label}: no bins.ndjson: what the detector saw cannot be checked")
        return
    places, counts = _bins(path)
    if not places:
        tally.fail(f"{cell.label}: bins.ndjson names no {' and '.join(_SEEN)}")
        return
    gate = cell.plane.gate_ns.get("traffic")
    due = due_windows(gate) if gate else range(0)
    for line in judged:
        k = int(line["k"])
        if k in due:
            held = sum(counts.get(number, 0) for number in range(k * BINS, (k + 1) * BINS))
            tally.require(
                held == int(line["packets_seen"]),
                f"{cell.label}: window {k}: {line['packets_seen']} packets seen, the bins hold {held}",
            )


def _bins(path: Path) -> tuple[list[int], dict[int, int]]:
    """Places of the fields that count as seen ([] where the header lacks one), their sum by bin number."""
    places: list[int] = []
    counts: dict[int, int] = {}
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                row = json.loads(text)
                if isinstance(row, list):
                    counts[int(row[0])] = sum(int(row[1][place]) for place in places)
                elif "fields" in row and all(name in row["fields"] for name in _SEEN):
                    places = [row["fields"].index(name) for name in _SEEN]
            except (ValueError, TypeError, LookupError) as error:
                raise RawDataError(path, f"line {number}: {error!r}") from error
    return places, counts


def frozen(cell: CellView, tally: Tally) -> None:
    """Every detector that the condition does not name used no CPU while the cell was measured; the one it
    names no more than the time that passed. Both readings frame the traffic window."""
    usage = cell.raw.usage
    if usage is None:
        listed = cell.run.providers.get("detectors")
        tally.require(
            not listed, f"{cell.label}: the campaign has detectors, no reading of their CPU is here"
        )
        return
    tally.see()
    named, due = _named(cell), set(cell.run.providers.get("detectors") or {})
    tally.require(
        set(usage["after"]) == due, f"{cell.label}: read {sorted(usage['after'])}, due {sorted(due)}"
    )
    for name, after in sorted(usage["after"].items()):
        before = usage["before"].get(name) or {}
        if after.get("cpu_ns") is None or before.get("cpu_ns") is None:
            tally.warn(f"{cell.label}: {name}: {after.get('reason') or before.get('reason')}")
            continue
        used, took = after["cpu_ns"] - before["cpu_ns"], after["t_ns"] - before["t_ns"]
        if name == named:
            fits = 0 < used <= took
            tally.require(fits, f"{cell.label}: {name} used {used / 1e6:.1f} ms in {took / 1e6:.0f} ms")
            gate = cell.plane.gate_ns.get("traffic")
            framed = gate is None or took >= gate[1] - gate[0]
            tally.require(framed, f"{cell.label}: {name}: the readings do not frame the traffic window")
        else:
            tally.require(used == 0, f"{cell.label}: {name} used {used / 1e6:.3f} ms of CPU while frozen")


def ready(cell: CellView, tally: Tally) -> None:
    """A result with a detector proves that it could see: a canary attack by ground truth, raised."""
    if _named(cell) == NONE:
        return
    tally.see()
    truth = episodes_of(cell.raw.canary.truth if cell.raw.canary else None)
    tally.require(bool(truth), f"{cell.label}: no ground truth of a canary attack")
    gate = cell.plane.gate_ns.get("traffic")
    for begin_ns, _ in truth:
        after = gate is None or begin_ns > gate[1]
        tally.require(after, f"{cell.label}: the canary attack lies in the measured part")
    if truth:
        why = HIDDEN if canary_hidden(cell.raw) else NOT_RAISED
        tally.require(canary_alarm(cell.raw) is not None, f"{cell.label}: {why}")


def model(cell: CellView, tally: Tally) -> None:
    """Every verdict carries the hash of the model that providers.json names for it, and its card's;
    the image it ran in has a digest."""
    named = _named(cell)
    if named == NONE:
        return
    tally.see()
    facts = (cell.run.providers.get("detectors") or {}).get(named)
    if not isinstance(facts, dict):
        tally.fail(f"{cell.label}: providers.json does not name detector {named}")
        return
    card = facts.get("card") or {}
    due = {facts.get("sha256"), card.get("sha256")}
    tally.require(len(due) == 1, f"{cell.label}: {named}: card and providers.json name different models")
    told = {line.get("sha256") for line in cell.raw.detector or []}
    tally.require(told <= due, f"{cell.label}: verdicts of model {sorted(map(str, told - due))[:1]}")
    signed = {str(line.get("detector")) for line in cell.raw.detector or []}
    tally.require(signed <= {named}, f"{cell.label}: verdicts signed {sorted(signed - {named})}")
    digest = str(facts.get("image_id") or "")
    tally.require(digest.startswith("sha256:"), f"{cell.label}: no digest of the image of {named}")
