"""Cold beside pooled handshakes, where the table of them is in the bundle."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.measures.handshake.tables import POOLED_COLUMNS
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Section, Table, label
from pqevidence.report.columns import Show, cells, heads
from pqevidence.report.links import first_of
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant

FEW = "fewer than 3 runs"


def pooled(source: Source) -> Section | None:
    """Cold and pooled handshakes of the same cells, side by side."""
    rows = source.rows("pooled") if source.has("pooled") else []
    if not rows:
        return None
    return Section(
        "pooled",
        "Cold and pooled handshakes",
        (
            Table(
                "pooled-table",
                "Handshakes that make their key pair, and handshakes that find one ready, in the same cells",
                heads(SHOWN),
                blocks.rows_of([cells(row, SHOWN, _special(source)) for row in rows]),
                source.ring,
                "analysis/pooled.csv",
            ),
        ),
        "Every other table of this report is about cold handshakes. A pool moves the key generation out of "
        "the handshake, it does not save it: the ground makes the next pair meanwhile, on the same cores.",
    )


def _count(name: str) -> Show:
    return lambda row: blocks.count(row[name])


def _interval(row: RawRow) -> Cell:
    if not row["ratio_low"]:
        return Cell(INSUFFICIENT, kind="null short", title=FEW)
    return label(f"{significant(float(row['ratio_low']))} – {significant(float(row['ratio_high']))}")


def _special(source: Source) -> dict[str, Show]:
    """Columns of which the page shows more than number or text."""
    return {
        **{name: _count(name) for name in ("n_cells", "n_cold", "n_pooled")},
        "ratio_low": _interval,
        "cells": lambda row: first_of(source, row["cells"]),
    }


SHOWN = pick(
    POOLED_COLUMNS,
    *("suite_id", "condition", "n_cells", "cold_median_ms", "n_cold", "pooled_median_ms", "n_pooled"),
    *("ratio", "ratio_low", "verdict", "cells"),
)
