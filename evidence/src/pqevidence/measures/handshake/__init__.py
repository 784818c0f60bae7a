"""Handshakes and the primitives in them: how long, where the time went, what travels."""

from __future__ import annotations

from pqevidence.analysis.handshakes import COLUMNS, PRIMITIVE_COLUMNS
from pqevidence.kernel.check import each, whole
from pqevidence.measures.handshake import algorithms, checks, pooled, record, section, sisters, steps, tables
from pqevidence.measures.measure import Measure, Part, in_turn

QUESTION = "How long until a link?"
MEASURE = Measure(
    name="handshake",
    files=(r"spans\.ndjson",),
    make_tables=tables.make_tables,
    columns={
        "handshakes": COLUMNS,
        "primitives": PRIMITIVE_COLUMNS,
        "sizes": tables.SIZE_COLUMNS,
        "pooled": tables.POOLED_COLUMNS,
    },
    fill=record.fill,
    parts=(
        Part(QUESTION, section.all_suites, after=None),
        Part(QUESTION, algorithms.primitives, after="statistics"),
        Part(QUESTION, algorithms.sizes, after="primitives"),
        Part(QUESTION, pooled.pooled, after="sizes"),
    ),
    checks=in_turn(
        "seal_overhead",
        each("cell_suite", checks.own_suite, "run", "raw files of the cell's own suite"),
        each("span_coverage", checks.span_coverage, "pass", "Σ spans 95–101 % of each wall", "%"),
        each("span_order", checks.span_order, "pass", "spans one after another inside their wall"),
        each("steps_named", steps.named, "run", "cryptography and waiting by their names"),
        each("steps_follow", steps.follow, "pass", "steps of the protocol in its order, without a hole"),
        each("span_window", checks.span_window, "pass", "handshakes inside their labelled window"),
        each(
            "network_wait",
            checks.network_wait,
            "pass",
            "drone's network time ≥ ground's work, same handshake",
        ),
        each(
            "handshake_count",
            checks.handshake_count,
            "pass",
            "handshakes counted = traced, as many as asked for",
            "a cell",
        ),
        each(
            "handshakes_told",
            checks.told_alike,
            "pass",
            "one number of handshakes in events, spans, counters, epochs",
        ),
        each(
            "handshakes_paused",
            checks.paused,
            "pass",
            "the same pause between handshakes in every cell",
            "ms",
        ),
        each("sisters_alike", sisters.alike, "run", "primitives as fast as in sister cells"),
        each(
            "pooled_apart",
            checks.pooled_apart,
            "pass",
            "pooled handshakes by themselves, each with a ready key",
            "a cell",
        ),
        each("primitive_sizes", checks.primitive_sizes_match, "pass", "sizes of the suite's algorithms"),
        whole(
            "level_dependence",
            checks.level_dependence,
            "times that are not the same at every level",
            "suites",
            value_unit="ms",
        ),
    ),
)
