"""AEAD in the running tunnel: `pqc-mav-2026-02` §7 and §8, with the share of a core that they come to."""

from __future__ import annotations

from pqevidence.analysis.aead import RATE_HZ
from pqevidence.analysis.table import to_float
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Column, Figure, Section, Table, label, number
from pqevidence.report.source import RawRow, Source

WAYS = (("seal", "encaps", "drone"), ("open", "decaps", "GCS"))
NO_CALL = "no call was counted"


def aead(source: Source) -> Section | None:
    """Drawing and table; None where no cell that passed counted its calls."""
    rows = source.rows("aead")
    if not rows:
        return None
    dots = [
        figures.Dot(
            _name(source, row),
            series,
            *(float(row[f"{way}_{value}_us"]) for value in ("median", "q1", "q3")),
        )
        for row in rows
        for way, series, _ in WAYS
        if (to_float(row[f"{way}_q1_us"]) or 0.0) > 0
    ]
    parts: list[blocks.Block] = []
    if dots:
        parts.append(
            Figure(
                "fig-aead",
                "Seal and open of one datagram in the running tunnel: median and quartiles over cells",
                figures.dot_rows("svg-aead", "Seal and open", "µs a call (log scale)", dots, "µs"),
                source.ring,
                "analysis/aead.csv",
                (("s-2", "E encrypt (seal), drone"), ("s-3", "D decrypt (open), GCS")),
            )
        )
    parts.append(_table(source, rows))
    return Section(
        "aead",
        "AEAD of a datagram",
        tuple(parts),
        "Whole calls in the data plane, header and nonce included, as the published table has them.",
    )


def _name(source: Source, row: RawRow) -> str:
    return f"{row['aead']}, {row['condition']}" if source.many_conditions else row["aead"]


def _table(source: Source, rows: list[RawRow]) -> Table:
    lines = []
    for row in rows:
        line = [label(row["aead"])]
        if source.many_conditions:
            line.append(label(row["condition"]))
        line.append(blocks.count(row["n_cells"]))
        for way, _, _ in WAYS:
            line += [
                number(row[f"{way}_median_us"], reason=NO_CALL),
                blocks.count(row[f"{way}_count"], reason=NO_CALL),
            ]
        line += [
            number(row["seal_ratio"], reason=NO_CALL),
            number(row[f"seal_{RATE_HZ}hz_pct"], reason=NO_CALL),
            label(row["ring"]),
        ]
        lines.append(line)
    columns = [Column("AEAD"), *([Column("condition")] if source.many_conditions else [])]
    columns += [
        Column("cells", "n", True),
        Column("seal, drone", "µs", True),
        Column("calls", "n", True),
        Column("open, GCS", "µs", True),
        Column("calls", "n", True),
        Column("seal, against the first", "", True),
        Column(f"seal at {RATE_HZ} Hz", "% of a core", True),
        Column("ring"),
    ]
    return Table(
        "aead-table",
        "Seal and open in the running tunnel, by AEAD",
        tuple(columns),
        blocks.rows_of(lines),
        source.ring,
        "analysis/aead.csv",
        "A ratio of medians is no claim; paired comparisons of AEADs stand under the statistics. "
        f"{RATE_HZ} calls a second times the time of one call is the share of a core.",
    )
