"""Foreign traffic: sent where the condition says so, within its bounds, and refused at the ends."""

from __future__ import annotations

from pqevidence.kernel.check import each
from pqevidence.measures.attack import checks, record
from pqevidence.measures.measure import Judged, Measure

BOUNDED = "attacks as the condition says, within their caps"
COUNTED = "what was sent, refused at the ends"
IN_STEP = "refused when it was sent, by bins"
NOTHING = "no foreign datagram where none is sent"
MEASURE = Measure(
    name="attack",
    files=(r"attack\.ndjson", r"canary/attack\.ndjson"),
    problems={"attack": record.problems},
    checks=(
        Judged(each("attack_bounded", checks.bounded, "pass", BOUNDED), after="link_replayed"),
        Judged(each("attack_counted", checks.counted, "pass", COUNTED), after="attack_bounded"),
        Judged(each("attack_in_step", checks.in_step, "run", IN_STEP), after="attack_counted"),
        Judged(each("nothing_foreign", checks.nothing_foreign, "pass", NOTHING), after="attack_in_step"),
    ),
)
