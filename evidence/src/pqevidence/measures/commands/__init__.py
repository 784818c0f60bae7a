"""What the ground asked of the vehicle, and how long until the vehicle acknowledged it."""

from __future__ import annotations

from pqevidence.kernel.check import each
from pqevidence.measures.commands import checks, record, section, tables
from pqevidence.measures.measure import Judged, Measure, Part

PLANNED = "requests as planned, each with its answer or reason"
WITNESSED = "requests as the vehicle and the tunnel counted"
MEASURE = Measure(
    name="commands",
    make_tables=tables.make_tables,
    columns={tables.NAME: tables.COLUMNS},
    fill=record.fill,
    parts=(Part("What does a packet cost?", section.commands, after="cpu"),),
    checks=(
        Judged(each("commands_planned", checks.planned, "pass", PLANNED), after="flight_log"),
        Judged(each("commands_witnessed", checks.witnessed, "pass", WITNESSED), after="commands_planned"),
    ),
)
