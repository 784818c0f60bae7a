"""How many cells each suite has: no measure of the lab, but what the smallest one looks like."""

from __future__ import annotations

from pqevidence.measures.tiny import checks, section, tables

from pqevidence.kernel.check import each
from pqevidence.measures.measure import Judged, Measure, Part

MEASURE = Measure(
    name="tiny",
    make_tables=tables.make_tables,
    columns={tables.NAME: tables.COLUMNS},
    parts=(Part("What was found?", section.tiny),),
    checks=(Judged(each("tiny_check", checks.named, "all", "a suite by name"), after="record_rebuild"),),
)
