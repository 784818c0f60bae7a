"""Power and energy at the drone's supply, where it has a sensor."""

from __future__ import annotations

from pqevidence.kernel.check import each
from pqevidence.measures.measure import Judged, Measure, Part
from pqevidence.measures.power import checks, record, section, tables

QUESTION = "What does it take from the supply?"
MEASURE = Measure(
    name="power",
    files=(r"power\.(?:drone|gcs)\.csv",),
    make_tables=tables.make_tables,
    columns={tables.NAME: tables.COLUMNS},
    fill=record.fill,
    parts=(Part(QUESTION, section.supply), Part(QUESTION, section.heat)),
    checks=(
        Judged(
            each("power_claims", checks.claims, "all", "no watts without a sensor, never 0.0 W"),
            after="plausible_values",
        ),
    ),
)
