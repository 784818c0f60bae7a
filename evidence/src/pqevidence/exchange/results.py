"""Cells as test cases."""

from __future__ import annotations

from collections.abc import Iterable

from pqbase.documents import Json, part_of, whole_of
from pqevidence.exchange.junit import Case, Outcome

#: verdict of a cell → how a build server sees it; an invalid cell measured nothing that counts
_OF_VERDICT: dict[str, Outcome] = {
    "pass": "passed", "fail": "failure", "invalid": "error", "unsupported": "skipped", "not-run": "skipped",
}  # fmt: skip


def of_cells(records: Iterable[Json], *, strict: bool) -> list[Case]:
    """One case a cell, in plan order. strict: an unsupported cell is a failure, as for the exit code."""
    return [_of_cell(record, strict) for record in records]


def _of_cell(record: Json, strict: bool) -> Case:
    verdict = str(record["verdict"])
    outcome = "failure" if strict and verdict == "unsupported" else _OF_VERDICT[verdict]
    reason = str(record.get("reason") or "")
    wall = part_of(record, "wall", {})
    start_ns, end_ns = wall.get("start_ns"), wall.get("end_ns")
    attempts = whole_of(record, "attempts", 0)
    time_s = None
    if isinstance(start_ns, int) and isinstance(end_ns, int) and attempts:
        time_s = (end_ns - start_ns) / 1e9
    cell = f"cell {record['cell_id']}, attempts: {attempts}"
    return Case(
        group=str(record["condition"]),
        name=f"{record['suite_id']} #{record['repetition']}",
        outcome=outcome,
        kind=verdict,
        message=reason,
        detail=f"{verdict}: {reason}\n{cell}",
        output=cell if outcome == "passed" and attempts > 1 else "",
        time_s=time_s,
    )
