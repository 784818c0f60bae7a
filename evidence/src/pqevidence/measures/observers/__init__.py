"""What observing costs: cells in which one observer stood still, or one was added, beside all others."""

from __future__ import annotations

from pqevidence.kernel.check import each
from pqevidence.measures.measure import Judged, Measure, Part
from pqevidence.measures.observers import checks, section, tables

MEASURE = Measure(
    name="observers",
    files=(r"observers\.json",),
    make_tables=tables.make_tables,
    columns={tables.NAME: tables.COLUMNS},
    comparing=frozenset({tables.NAME}),
    parts=(Part("What does a packet cost?", section.observers, after="cpu"),),
    checks=(
        Judged(
            each("observers_still", checks.still, "pass", "observers off where the condition says so"),
            after="ticks_processor",
        ),
    ),
)
