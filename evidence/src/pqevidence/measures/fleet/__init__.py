"""One ground station, many drones: who is back when, what it costs, how many it carries."""

from __future__ import annotations

import re

from pqevidence.kernel.check import each
from pqevidence.measures.fleet import checks, record, section, tables
from pqevidence.measures.measure import Judged, Measure, Part
from pqevidence.record.fleet import DOCUMENT, FILES, STATUS_FILE

FLOWN = "a fleet as the condition and the seed say"
TIMED = "processors and clocks of a fleet on one time line"
WITNESSED = "the farm's account is the station's"
MEASURE = Measure(
    name="fleet",
    files=tuple(map(re.escape, (DOCUMENT, STATUS_FILE, *(name for name, _ in FILES.values())))),
    make_tables=tables.make_tables,
    columns={tables.STAGES: tables.STAGE_COLUMNS, tables.CAPACITY: tables.CAPACITY_COLUMNS},
    problems={"fleet": record.problems},
    parts=(Part("How long until a link?", section.fleet),),
    checks=(
        Judged(each("fleet_flown", checks.flown, "run", FLOWN), after="nothing_foreign"),
        Judged(each("fleet_timed", checks.timed, "run", TIMED), after="fleet_flown"),
        Judged(each("fleet_witnessed", checks.witnessed, "run", WITNESSED), after="fleet_timed"),
    ),
)
