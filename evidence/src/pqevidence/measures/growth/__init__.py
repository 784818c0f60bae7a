"""What a long session leaves behind: memory, threads and open files of both tunnels."""

from __future__ import annotations

from pqevidence.measures.growth import section, tables
from pqevidence.measures.measure import Measure, Part

MEASURE = Measure(
    name="growth",
    make_tables=tables.make_tables,
    columns={tables.NAME: tables.COLUMNS},
    parts=(Part("What does a packet cost?", section.growth),),
)
