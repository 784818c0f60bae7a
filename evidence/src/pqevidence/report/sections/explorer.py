"""Every suite with its key numbers in one table, of which a reader sets any two side by side."""

from __future__ import annotations

from dataclasses import replace

from pqevidence.analysis.explorer import SIZES, STEPS
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, number
from pqevidence.report.source import RawRow, Source

NO_STEP = "no such step in this suite"
NO_PART = "no such part in this suite"


def explorer(source: Source) -> Section | None:
    """One row a suite and condition that passed at least once."""
    rows = source.rows("explorer")
    if not rows:
        return None
    columns = [Column("suite"), *([Column("condition")] if source.many_conditions else [])]
    columns += [
        Column("level"),
        Column("cells", "n", True),
        Column("handshake", "ms", True),
        *(Column(step, "ms", True) for step in STEPS),
        Column("public key", "B", True),
        Column("ciphertext", "B", True),
        Column("signature", "B", True),
        Column("latency down, p50", "ms", True),
        Column("latency up, p50", "ms", True),
        Column("lost", "datagrams", True),
        Column("CPU, drone", "% of a core", True),
    ]
    table = Table(
        "side-by-side",
        "Suites by their key numbers; pick two to set them side by side",
        tuple(columns),
        blocks.rows_of([_line(source, row) for row in rows]),
        source.ring,
        "analysis/explorer.csv",
        "Medians over the cells that passed. A ratio of two of these numbers is no claim: the paired "
        "comparisons carry those.",
        collapsed=len(rows) > 40,
    )
    return Section("explorer", "Suites side by side", (replace(table, pick=True),))


def _line(source: Source, row: RawRow) -> list[Cell]:
    suite = row["suite_id"]
    line: list[Cell] = [label(f"{suite}, {row['condition']}" if source.many_conditions else suite)]
    if source.many_conditions:
        line.append(label(row["condition"]))
    return [
        *line,
        label(row["level"] or "unknown"),
        blocks.count(row["n_cells"]),
        number(row["handshake_median_ms"]),
        *(number(row[f"{step}_median_ms"], reason=NO_STEP) for step in STEPS),
        *(blocks.count(row[name], reason=NO_PART) for name in SIZES),
        number(row["latency_down_p50_ms"], reason="no joined latency"),
        number(row["latency_up_p50_ms"], reason="no joined latency"),
        blocks.count(row["lost_count"], reason="no traffic window"),
        number(row["cpu_drone_pct"], reason="no telemetry"),
    ]
