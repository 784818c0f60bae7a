"""Detectors: what they said of the traffic, how well, what they cost, and that they could see at all."""

from __future__ import annotations

from pqevidence.kernel.check import Check, each
from pqevidence.measures.detector import checks, forest, record, rescored, roc, scenarios, section, tables
from pqevidence.measures.measure import Measure, Part, in_turn

MEASURE = Measure(
    name="detector",
    files=(r"detectors\.json", r"detector\.ndjson"),
    make_tables=tables.make_tables,
    columns={
        "detectors": tables.COLUMNS,
        "detector_overhead": tables.OVERHEAD_COLUMNS,
        "detector_quality": tables.QUALITY_COLUMNS,
        scenarios.NAME: scenarios.COLUMNS,
        "detector_roc": roc.COLUMNS,
    },
    comparing=frozenset({"detector_overhead"}),
    fill=record.fill,
    problems={"blind": record.failures, "detector": record.problems},
    parts=(Part("What did the detectors see?", section.detectors),),
    checks=in_turn(
        "nothing_foreign",
        each(
            "detector_verdicts",
            checks.verdicts,
            "pass",
            "one verdict a window, its arithmetic and counts right",
        ),
        each("detector_scores", checks.scores, "pass", "alarms that follow from the scores"),
        Check("detector_rescored", "scores that bins and model give", "pass", None, rescored.again, "scores"),
        each("detector_ready", checks.ready, "pass", "a detector that raised its canary"),
        each("detector_frozen", checks.frozen, "pass", "no CPU for detectors of other cells"),
        each("detector_model", checks.model, "pass", "verdicts of the model and image that are named"),
    ),
    models=forest.packed,
)
