"""Scores of a detector made again: the bins of the cell through the model whose digest its verdicts carry."""

from __future__ import annotations

from collections.abc import Iterator

from pqbase.documents import part_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.detector.forest import FIVE_WINDOW, Forest, shipped
from pqevidence.measures.detector.record import due_windows
from pqevidence.measures.detector.windows import UNKNOWN, Bins, Row, five_window, read_bins
from pqevidence.record.raw import Json
from pqevidence.scenario.conditions import NO_DETECTOR as NONE
from pqevidence.scenario.conditions import detector_of

#: sums of leaves are single precision where the score was made, and double here
TOLERANCE = 1e-4
#: windows that a row of features looks back over, its own included
LOOKED = 5
OUTPUTS = ("attack_score", "degraded_score")


def again(cell: CellView, tally: Tally) -> None:
    """Every score of this cell whose five windows are all of this cell, as bins and model give it."""
    named = detector_of(cell.run.condition(str(cell.plan["condition"])))
    lines = cell.raw.detector or []
    if named == NONE or not lines:
        return
    facts = part_of(part_of(cell.run.providers, "detectors", {}), named, {})
    kind = part_of(facts, "card", {}).get("kind")
    if kind != "trees":
        _left(tally, f"{named}: a {kind} is not among what this checker can run")
        return
    digest = str(facts.get("sha256"))
    forest = shipped(digest)
    if forest is None:
        tally.warn(
            f"{cell.label}: scores of {named} were not made again: model {digest[:12]} is none that comes "
            "with this checker"
        )
        return
    if forest.rows != FIVE_WINDOW:
        _left(tally, f"{named}: rows of {forest.rows} look back beyond a cell")
        return
    path = cell.folder / "bins.ndjson"
    bins = read_bins(path) if path.is_file() else None
    gate = cell.plane.gate_ns.get("traffic")
    due = due_windows(gate) if gate else range(0)
    judged = [int(line["k"]) for line in lines if line["history_windows"] and int(line["k"]) in due]
    bare = [k for k in judged if bins is None or bins.missing or k not in bins.windows]
    if bins is None or bare:
        text = f"bins.ndjson does not hold windows {bare[:3]}"
        tally.fail(f"{cell.label}: {text}: their scores by model {digest[:12]} rest on nothing")
        return
    judged_here = [line for line in lines if line["history_windows"] and int(line["k"]) in bins.windows]
    rested = list(_judged(cell, bins))
    if len(rested) < len(judged_here):
        _left(tally, f"{named}: windows that look back into an earlier cell")
    _compare(cell, tally, forest, rested, digest)


def _left(tally: Tally, why: str) -> None:
    if why not in tally.note:
        tally.note = f"{tally.note}; {why}" if tally.note else f"not made again: {why}"


def _compare(
    cell: CellView, tally: Tally, forest: Forest, rested: list[tuple[Json, list[Row]]], digest: str
) -> None:
    for line, rows in rested:
        told = tuple(float(line[name]) for name in OUTPUTS)
        given = forest.scores(five_window(rows))
        apart = max(abs(one - other) for one, other in zip(told, given, strict=True))
        if not apart <= TOLERANCE:
            name, score, due = max(
                zip(OUTPUTS, told, given, strict=True), key=lambda each: abs(each[1] - each[2])
            )
            tally.fail(
                f"{cell.label}: window {line['k']}: {name} {score:.6g} in detector.ndjson, bins.ndjson and "
                f"model {digest[:12]} give {due:.6g}"
            )
            return
        tally.see()


def _judged(cell: CellView, bins: Bins) -> Iterator[tuple[Json, list[Row]]]:
    """Verdict lines with the rows they rest on, newest first, where all of these are known.

    Windows before the cell's first line are those of another cell, unless the detector had forgotten
    everything. A window in between that it did not judge is unknown to it.
    """
    known: dict[int, Row] = {}
    first, forgot = 0, False
    for line in cell.raw.detector or []:
        k = int(line["k"])
        if not line["history_windows"] or k not in bins.windows:
            continue
        if not known or (int(line["history_windows"]) == 1 and line["reset"]):
            known, first, forgot = {}, k, int(line["history_windows"]) == 1
        known[k] = bins.row(k)
        if forgot or k - first >= LOOKED - 1:
            yield line, [known.get(k - age, UNKNOWN) for age in range(LOOKED)]
