"""AEAD in the running tunnel: `pqc-mav-2026-02` §7 and §8, with the share of a core that they come to."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.analysis.table import to_float
from pqevidence.measures.traffic.tables import AEAD_COLUMNS, RATE_HZ
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Figure, Section, Table
from pqevidence.report.columns import Show, because, cells, counts, heads, values
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
    shown = pick(
        AEAD_COLUMNS,
        "aead",
        *(("condition",) if source.many_conditions else ()),
        "n_cells",
        *(f"{way}_{what}" for way, _, _ in WAYS for what in ("median_us", "count")),
        *("seal_ratio", f"seal_{RATE_HZ}hz_pct", "ring"),
    )
    return Table(
        "aead-table",
        "Seal and open in the running tunnel, by AEAD",
        heads(shown),
        blocks.rows_of([cells(row, shown, SPECIAL) for row in rows]),
        source.ring,
        "analysis/aead.csv",
        "A ratio of medians is no claim; paired comparisons of AEADs stand under the statistics. "
        f"{RATE_HZ} calls a second times the time of one call is the share of a core.",
    )


#: columns of which the page shows more than number or text
SPECIAL: dict[str, Show] = {
    **counts("n_cells"),
    **counts(*(f"{way}_count" for way, _, _ in WAYS), why=because(NO_CALL)),
    **values(*(f"{way}_median_us" for way, _, _ in WAYS), why=because(NO_CALL)),
    **values("seal_ratio", f"seal_{RATE_HZ}hz_pct", why=because(NO_CALL)),
}
