"""Ticks of the samplers: as many as were due, by the files and by the samplers' own account."""

from __future__ import annotations

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.faults import stalled_ns
from pqevidence.record.raw import ROLES
from pqevidence.record.system import tick_hz
from pqevidence.scenario.conditions import without

LOST_SHARE = 0.05
LOST_SLACK = 2


def samples(cell: CellView, tally: Tally) -> None:
    """Ticks of each sampler in the file against the time until its end stopped and its own account."""
    start, end = cell.wall
    rate_hz = tick_hz(cell.run.scenario)
    condition = cell.run.condition(str(cell.plan["condition"]))
    if "sampler" in without(condition):
        return  # it stood still on purpose, which `observers_still` looks at
    for role in ROLES:
        stopped = cell.stopped_ns(role)
        still = stalled_ns(cell.raw.events, condition, role, (start, stopped))
        due = int((stopped - start - still) / 1e9 * rate_hz)
        rows = [line for line in cell.raw.telemetry.get(role, []) if line.startswith("pq_sampler,")]
        inside = [line for line in rows if start <= int(line.rsplit(" ", 1)[1]) <= end]
        where = f"{cell.label} {role}"
        lost = due - len(inside)
        tally.see(100 * len(inside) / due if due else 100.0)
        allowed = max(LOST_SLACK, LOST_SHARE * due)
        tally.require(lost <= allowed, f"{where}: {len(inside)} ticks stored, {due} were due")
        tally.require(len(inside) <= due + LOST_SLACK, f"{where}: {len(inside)} ticks in time for {due}")
        if len(rows) > 1:
            grown = _account(rows[-1])["stored_count"] - _account(rows[0])["stored_count"] + 1
            tally.require(
                grown == len(rows), f"{where}: the sampler stored {grown} ticks, the file has {len(rows)}"
            )
            last = _account(rows[-1])
            if "lost_count" in last:
                parts = last["got_count"] + last["late_count"] + last["lost_count"]
                total = last["expected_count"]
                tally.require(
                    abs(total - parts) <= 1, f"{where}: expected {total} ≠ got + late + lost {parts}"
                )
    tally.unit = "files"


def _account(line: str) -> dict[str, int]:
    """Integer fields of one sampler line."""
    body = line.split(" ")[1]
    pairs = (field.split("=", 1) for field in body.split(","))
    return {name: int(value[:-1]) for name, value in pairs if value.endswith("i")}
