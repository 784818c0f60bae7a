"""What the hosts did meanwhile: processor, memory, heat, waiting, and the sampler that counted it."""

from __future__ import annotations

from pqevidence.analysis import system
from pqevidence.kernel.check import each
from pqevidence.measures.host import between, record, samples, section, tables, ticks
from pqevidence.measures.measure import Measure, Part, in_turn

QUESTION = "What does a packet cost?"
MEASURE = Measure(
    name="host",
    files=(r"telemetry\.(?:drone|gcs)\.lp",),
    make_tables=tables.make_tables,
    columns={"cpu": system.COLUMNS, "overhead": tables.OVERHEAD_COLUMNS},
    fill=record.fill,
    parts=(
        Part(QUESTION, section.cpu, after="aead"),
        Part(QUESTION, section.overhead, after="cpu"),
    ),
    checks=in_turn(
        "ring_claims",
        each(
            "sample_accounting", samples.samples, "pass", "ticks stored = due − lost, ≤ 5 % lost", "% stored"
        ),
        each("ticks_counters", ticks.counters, "pass", "counters at every tick as files have them"),
        each("ticks_processor", ticks.processor, "pass", "processor time that adds up"),
        each("ticks_between", between.run_on, "run", "kernel accounts that run on from attempt to attempt"),
    ),
)
