"""Detectors: verdicts that add up, a detector that could see, others that slept, the model that is named."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pqevidence
from pqbase.documents import part_of, part_or_none
from pqdetect.service.verdict import BINS, DEADLINE_NS, SCHEMA, STATES, window_end_ns
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.detector.forest import shipped_card
from pqevidence.measures.detector.record import (
    HIDDEN,
    NOT_RAISED,
    canary_alarm,
    canary_hidden,
    due_windows,
    episodes_of,
    told_of,
)
from pqevidence.record.raw import Json, RawDataError
from pqevidence.scenario.conditions import NO_DETECTOR as NONE
from pqevidence.scenario.conditions import detector_of

ROUNDING_MS = 0.001
#: fields of the sealed side's bins that make up `packets_seen`
_SEEN = ("rx_datagrams", "tx_data")
#: kinds of models that decide by their own score alone; a cascade decides by that of its second stage
RULED = ("trees", "transformer")
#: a control group is charged by the tick
GROUP_SLACK_NS = 20_000_000
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
    named, due = _named(cell), set(part_of(cell.run.providers, "detectors", {}))
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


def scores(cell: CellView, tally: Tally) -> None:
    """Scores are shares; alarms are those that the model's own rule makes of them; the lines are of this
    cell; and the process used no more than its control group, nor less from line to line."""
    named = _named(cell)
    lines = cell.raw.detector or []
    if named == NONE or not lines:
        return
    tally.see()
    card = part_of(part_of(part_of(cell.run.providers, "detectors", {}), named, {}), "card", {})
    told = [line for line in lines if line["state"] == "ready"]
    for output in ("attack", "degraded"):
        odd = [line for line in told if not 0.0 <= float(line[f"{output}_score"]) <= 1.0]
        if odd:
            text = f"{output}_score {odd[0][f'{output}_score']} in detector.ndjson"
            tally.fail(f"{cell.label}: window {odd[0]['k']}: {text}")
            continue
        rule = part_or_none(part_of(card, "rules", {}), output) if card.get("kind") in RULED else None
        line = None if rule is None else _undecided(told, output, rule)
        if line is not None:
            score = line[f"{output}_score"]
            tally.fail(
                f"{cell.label}: window {line['k']}: {output} {line[output]} at a score of {score} in "
                f"detector.ndjson, the rule {rule} of providers.json says otherwise"
            )
    gate = cell.plane.gate_ns.get("traffic")
    # judged windows whose bins all lie in the session: the agent had told the detector whose they are
    due = due_windows(gate) if gate else range(0)
    for line in lines:
        if int(line["k"]) in due and line["history_windows"]:
            own = line["cell_id"] in (None, cell.cell_id)
            if not own:
                tally.fail(
                    f"{cell.label}: window {line['k']} of detector.ndjson is of cell {line['cell_id']}"
                )
                break
    used = [int(line["cpu_ns"]) for line in lines]
    if used != sorted(used):
        tally.fail(f"{cell.label}: cpu_ns falls from line to line of detector.ndjson")
    usage = cell.raw.usage
    before, after = ((usage or {}).get(edge, {}).get(named) or {} for edge in ("before", "after"))
    if before.get("cpu_ns") is not None and after.get("cpu_ns") is not None:
        inside = [
            int(line["cpu_ns"]) for line in lines if before["t_ns"] <= int(line["t_ns"]) <= after["t_ns"]
        ]
        ran, group = (max(inside) - min(inside) if inside else 0), after["cpu_ns"] - before["cpu_ns"]
        tally.require(
            ran <= group + GROUP_SLACK_NS,
            f"{cell.label}: {named} ran {ran / 1e6:.1f} ms by cpu_ns of detector.ndjson, its control group "
            f"{group / 1e6:.1f} ms by detectors.json",
        )


def _undecided(lines: list[Json], output: str, rule: Json) -> Json | None:
    """The first line that the rule does not give, None where all follow. An alarm begins where `need` of the
    last `among` scores reach `on`; it ends after `hold` windows in a row below `off`. What was before the
    first line is not known, nor after a reset or a gap: the first `among` windows are taken as they are, then
    every count is tried."""
    among, hold = int(rule["among"]), int(rule["hold"])
    above: list[bool] = []
    worlds: set[int] = set()
    alarm, before = False, None
    for line in lines:
        broken = before is None or line["reset"] or int(line["k"]) != int(before["k"]) + 1
        if int(line["history_windows"]) == 1:
            above, worlds, alarm = [], {0}, False  # it had forgotten everything, alarms too
        elif broken:
            above, worlds = [], set()
        score, told = float(line[f"{output}_score"]), bool(line[output])
        above = [*above, score >= float(rule["on"])][-among:]
        if not worlds:
            worlds = set(range(hold)) if len(above) == among else set()
        elif sum(above) >= int(rule["need"]):
            if not told:
                return line
            worlds = {0}
        elif score >= float(rule["off"]):
            if told is not alarm:
                return line
            worlds = {0}
        else:
            counted = {quiet + 1 for quiet in worlds}
            ended = {quiet for quiet in counted if quiet >= hold}
            worlds = counted if not alarm else counted - ended if told else ended
            if (told and not alarm) or not worlds:
                return line
        alarm, before = told, line
    return None


def model(cell: CellView, tally: Tally) -> None:
    """Every verdict carries the hash of the model that providers.json names for it, and its card's;
    the image it ran in has a digest."""
    named = _named(cell)
    if named == NONE:
        return
    tally.see()
    facts = part_of(cell.run.providers, "detectors", {}).get(named)
    if not isinstance(facts, dict):
        tally.fail(f"{cell.label}: providers.json does not name detector {named}")
        return
    card = facts.get("card") or {}
    due = {facts.get("sha256"), card.get("sha256")}
    tally.require(len(due) == 1, f"{cell.label}: {named}: card and providers.json name different models")
    own = cell.run.run.get("pqlab_version") == pqevidence.__version__  # a later one may tell more of a model
    if own and (shipped := shipped_card(str(facts.get("sha256")))) is not None:
        odd = sorted(key for key in {*shipped, *card} if shipped.get(key) != card.get(key))
        tally.require(
            not odd,
            f"{cell.label}: {named}: the card of a shipped model, of another {', '.join(odd)} than it has",
        )
    told = {line.get("sha256") for line in cell.raw.detector or []}
    tally.require(told <= due, f"{cell.label}: verdicts of model {sorted(map(str, told - due))[:1]}")
    signed = {str(line.get("detector")) for line in cell.raw.detector or []}
    tally.require(signed <= {named}, f"{cell.label}: verdicts signed {sorted(signed - {named})}")
    digest = str(facts.get("image_id") or "")
    tally.require(digest.startswith("sha256:"), f"{cell.label}: no digest of the image of {named}")
