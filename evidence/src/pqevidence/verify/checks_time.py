"""Durations: nothing lasts longer than what holds it, and a session lasts as long as it is said to."""

from __future__ import annotations

from itertools import pairwise

from pqbase.documents import whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.run_shape import sessions_due
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.record.raw import Json

SESSION_SHORT_S = 0.05
SESSION_LONG_S, SESSION_LONG_SHARE = 0.5, 0.02
#: traffic may begin late and end early by a burst or two, not by more
LEDGER_EDGE_S, LEDGER_EDGE_SHARE = 0.5, 0.05


def run_wall(bundle: BundleView, tally: Tally) -> None:
    """Runs follow one another, and cells one another inside theirs; their walls cannot sum to more."""
    runs = [(str(raw.run.get("run_id")), *_ends(raw.run)) for raw in bundle.runs]
    for run_id, start, end in runs:
        tally.require(end > start, f"run {run_id} ends before it starts")
    for (first, _, before), (second, after, _) in pairwise(runs):
        tally.require(before <= after, f"run {second} starts before {first} ends")
    walls: list[tuple[int, int, str]] = []
    for cell in bundle.cells:
        wall = cell.record["wall"]
        if wall["start_ns"] is None:
            continue
        tally.see()
        begun, ended = int(wall["start_ns"]), int(wall["end_ns"])
        walls.append((begun, ended, cell.label))
        start, end = _ends(cell.run.run)
        tally.require(start <= begun <= ended <= end, f"{cell.label} lies outside the run")
    walls.sort()
    for (_, before, first), (after, _, second) in pairwise(walls):
        tally.require(before <= after, f"{second} starts before {first} ends")
    total_s = sum(ended - begun for begun, ended, _ in walls) / 1e9
    run_s = sum(end - start for _, start, end in runs) / 1e9
    tally.require(total_s <= run_s, f"Σ cells {total_s:.1f} s in a run of {run_s:.1f} s")
    tally.note = f"{total_s:.1f} s of {run_s:.1f} s"


def _ends(run: Json) -> tuple[int, int]:
    """Start and end of a run in realtime ns. TypeError when it has none."""
    return int(run["started_ns"]), int(run["ended_ns"])


def order_kept(bundle: BundleView, tally: Tally) -> None:
    """Within each session of a run cells came in the order of the plan, and blocks one after another: the
    position that the statistics use is the one that was carried out."""
    rows = bundle.plan_cells
    repetitions: dict[int, int] = {}
    for row in rows:
        tally.see()
        block, repetition = int(row["block"]), int(row["repetition"])
        same = repetitions.setdefault(block, repetition) == repetition
        tally.require(same, f"block {block} holds repetition {repetition} and another")
    for before, row in pairwise(rows):
        new_run = bundle.run_of(str(row["cell_id"])) is not bundle.run_of(str(before["cell_id"]))
        ascending = int(before["block"]) <= int(row["block"])
        tally.require(ascending or new_run, f"position {row['position']}: block {row['block']} comes again")
    for raw in bundle.runs:
        begun = [whole_of(session, "started_ns") for session in raw.sessions]
        cells = [
            cell for cell in bundle.cells if cell.run is raw and cell.record["wall"]["start_ns"] is not None
        ]
        by_session: dict[int, list[tuple[int, int, str]]] = {}
        for cell in cells:
            start_ns = int(cell.record["wall"]["start_ns"])
            session = sum(1 for moment in begun if moment <= start_ns)
            by_session.setdefault(session, []).append((start_ns, int(cell.plan["position"]), cell.label))
        for done in by_session.values():
            for (_, first, _), (_, second, label) in pairwise(sorted(done)):
                tally.require(first < second, f"{label} (position {second}) came after position {first}")


def window_sum(cell: CellView, tally: Tally) -> None:
    """Labelled windows lie in the cell, do not overlap, and are those of the record; Σ ≤ wall."""
    start, end = cell.wall
    windows = cell.labelled()
    for name, begun, ended in windows:
        tally.require(start <= begun <= ended <= end, f"{cell.label}: window {name} lies outside the cell")
    for (first, _, before), (second, after, _) in pairwise(sorted(windows, key=lambda row: row[1])):
        tally.require(before <= after, f"{cell.label}: {second} starts before {first} ends")
    total = sum(ended - begun for _, begun, ended in windows)
    tally.require(
        total <= end - start, f"{cell.label}: Σ windows {total / 1e9:.3f} s in {(end - start) / 1e9:.3f} s"
    )
    told = cell.record["wall"]
    same = (told["start_ns"], told["end_ns"]) == (start, end)
    tally.require(same, f"{cell.label}: the record's wall is not that of its events")
    tally.see((end - start - total) / 1e9)


def session_duration(cell: CellView, tally: Tally) -> None:
    """The drone's gate was open as long as the scenario says, the label around it no shorter, and datagrams
    came over that time: three clocks that have to be forged alike."""
    labels = {name: (ended - begun) / 1e9 for name, begun, ended in cell.labelled()}
    for window, nominal_s in sessions_due(cell.run.scenario).items():
        measured_s = cell.plane.gate_s.get(window)
        where = f"{cell.label} {window}"
        if measured_s is None or window not in labels:
            tally.fail(f"{where}: no such session, {nominal_s:g} s are due")
            continue
        tally.see(measured_s)
        longest = nominal_s + max(SESSION_LONG_S, SESSION_LONG_SHARE * nominal_s)
        tally.require(
            nominal_s - SESSION_SHORT_S <= measured_s <= longest,
            f"{where}: {measured_s:.3f} s of {nominal_s:g} s",
        )
        label_s = labels[window]
        tally.require(
            label_s >= nominal_s - SESSION_LONG_S, f"{where}: labelled for {label_s:.3f} s of {nominal_s:g} s"
        )
        joined = cell.plane.down.windows.get(window) if cell.plane.down else None
        if joined is not None and joined.first_in_ns is not None and joined.last_in_ns is not None:
            carried_s = (joined.last_in_ns - joined.first_in_ns) / 1e9
            edge_s = max(LEDGER_EDGE_S, LEDGER_EDGE_SHARE * nominal_s)
            tally.require(
                carried_s >= nominal_s - edge_s,
                f"{where}: traffic lasted {carried_s:.3f} s of {nominal_s:g} s",
            )
