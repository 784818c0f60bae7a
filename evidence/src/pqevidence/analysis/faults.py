"""fault_recovery.csv: every fault that a condition asked for and that took place, and the way back."""

from __future__ import annotations

from pqbase.documents import part_of
from pqevidence.analysis.handshakes import CELL_COLUMNS, cell_columns
from pqevidence.analysis.load import ROLES, BundleData, Cell
from pqevidence.analysis.table import Table
from pqevidence.analysis.traffic import shared_clock
from pqevidence.record.faults import recoveries
from pqevidence.record.raw import load_cell


def fault_table(bundle: BundleData) -> Table | None:
    """One row a fault; None where no cell had one. Cells that passed, failed or were invalid: all of them."""
    table = Table(
        "fault_recovery",
        (*CELL_COLUMNS, "kind", "role", "at_s", "for_s", "until", "recovery_ms", "reason"),
    )
    beside = bool(part_of(bundle.run, "controller", {}).get("controller_on_dut"))
    for cell in bundle.cells:
        if not any(event.get("event") == "timed_event" for event in cell.events):
            continue
        raw = load_cell(cell.directory)
        ticks = {role: _ticks_ns(cell, role) for role in ROLES}
        for told in recoveries(raw, ticks, one_clock=beside and shared_clock(cell)[0]):
            table.add(
                **cell_columns(cell),
                kind=told.kind,
                role=told.role,
                at_s=told.at_s,
                for_s=told.for_s,
                until=told.until,
                recovery_ms=told.recovery_ms,
                reason=told.reason,
            )
    return table if table.rows else None


def _ticks_ns(cell: Cell, role: str) -> list[int]:
    lines = (line for line in cell.telemetry_lines(role) if line.startswith("pq_sampler,"))
    return [int(line.rsplit(" ", 1)[1]) for line in lines]
