"""The capacity of one ground station by suite, and what happened to the fleet stage by stage."""

from __future__ import annotations

from collections.abc import Mapping

from pqevidence.analysis.column import Column, pick
from pqevidence.measures.fleet.tables import CAPACITY, CAPACITY_COLUMNS, STAGE_COLUMNS, STAGES
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Section, Table, label, missing, number
from pqevidence.report.columns import heads
from pqevidence.report.source import RawRow, Source, analysis_link, anchor, record_link

#: why a value of the capacity is not there
WHY = {
    "ended_drones": "every load arrived",
    "carried_drones": "no load arrived",
    "quiet_p99_ms": "fewer than 100 probes",
    "rekeying_p99_ms": "fewer than 100 probes",
}
#: … and of any other
NOT_ALL = "not every drone came back within the limit"
COUNTED = ("_count", "_drones", "n_probes")
#: identifying columns that the section shows
WHOSE = ("suite_id",)


def fleet(source: Source) -> Section | None:
    """Only where a fleet flew."""
    rows = source.rows(CAPACITY) if source.has(CAPACITY) else []
    if not rows:
        return None
    return Section(
        "fleet",
        "How many drones one ground station serves",
        (_capacity(source, rows), _stages(source, source.rows(STAGES))),
        "A farm of drones in one process dials one ground station (pqlink) in another; both share this "
        "machine's processors, so that times are of both. A drone is back with the first authentic packet "
        "after the station answers again, or its link is back; it notices either by 3 s of silence. "
        "Single runs: observations, not claims.",
    )


def _own(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Those after the ones that name the cell."""
    place = [column.name for column in columns].index("drones_count")
    return columns[place:]


def _capacity(source: Source, rows: list[RawRow]) -> Table:
    shown = (*pick(CAPACITY_COLUMNS, *WHOSE), *_own(CAPACITY_COLUMNS))
    ordered = sorted(rows, key=lambda row: (int(row["drones_count"]), row["suite_id"]))
    return Table(
        "fleet-capacity",
        "Capacity of one ground station, by suite",
        (*heads(shown), blocks.Column("raw")),
        blocks.rows_of([[*_cells(row, shown, WHY), record_link(row["cell_id"])] for row in ordered]),
        source.ring,
        analysis_link(CAPACITY),
        "Restart and outage: until all drones are back. Capacity: handshakes a second that one core of the "
        "station makes, from its processor time over the join; the farm needs as much again beside it. "
        "Ends at: the smallest load of which less than 99 % arrived; none where all did.",
    )


def _stages(source: Source, rows: list[RawRow]) -> Table:
    shown = (*pick(STAGE_COLUMNS, *WHOSE), *_own(STAGE_COLUMNS))
    return Table(
        "fleet-stages",
        "Every stage of every fleet, with both processors",
        (*heads(shown), blocks.Column("raw")),
        blocks.rows_of([[*_cells(row, shown, None), record_link(row["cell_id"])] for row in rows]),
        source.ring,
        analysis_link(STAGES),
        "Rest: everything else that ran on the machine, the lab's idle services and, while containers start, "
        "the engine among it. Lost: probes that did not come back within 5 s; of a load what was "
        "offered and did not arrive.",
        collapsed=True,
    )


def _cells(row: RawRow, shown: tuple[Column, ...], why: Mapping[str, str] | None) -> list[Cell]:
    """why: reasons by column; None: other columns than a stage's own mean nothing there."""
    return [_cell(row, column, why) for column in shown]


def _cell(row: RawRow, column: Column, why: Mapping[str, str] | None) -> Cell:
    value = row[column.name]
    if column.name == "suite_id":
        return label(value, href=anchor(row["cell_id"]))
    if not value:
        return Cell("–", kind="none") if why is None else missing(why.get(column.name, NOT_ALL))
    if not column.numeric:
        return label(value)
    return blocks.count(value) if column.name.endswith(COUNTED) else number(value)
