"""Rekeys: what they took, what the traffic noticed, and the published model of their share beside it."""

from __future__ import annotations

from pqevidence.measures.measure import Measure, Part
from pqevidence.measures.rekey import record, section, tables

MEASURE = Measure(
    name="rekey",
    make_tables=tables.make_tables,
    columns={tables.REKEYS: tables.COLUMNS, tables.SWEEP: tables.SWEEP_COLUMNS},
    comparing=frozenset({tables.SWEEP}),
    fill=record.fill,
    parts=(Part("What happens at a rekey?", section.rekeys, after=None),),
)
