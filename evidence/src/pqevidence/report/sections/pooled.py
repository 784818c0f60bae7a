"""Cold beside pooled handshakes, where the table of them is in the bundle."""

from __future__ import annotations

from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, number
from pqevidence.report.links import first_of
from pqevidence.report.source import Source
from pqevidence.report.svg import significant

FEW = "fewer than 3 runs"


def pooled(source: Source) -> Section | None:
    """Cold and pooled handshakes of the same cells, side by side."""
    rows = source.rows("pooled") if source.has("pooled") else []
    if not rows:
        return None
    lines = [
        [
            label(r["suite_id"]),
            label(r["condition"]),
            blocks.count(r["n_cells"]),
            number(r["cold_median_ms"]),
            blocks.count(r["n_cold"]),
            number(r["pooled_median_ms"]),
            blocks.count(r["n_pooled"]),
            number(r["ratio"]),
            Cell(INSUFFICIENT, kind="null short", title=FEW)
            if not r["ratio_low"]
            else label(f"{significant(float(r['ratio_low']))} – {significant(float(r['ratio_high']))}"),
            label(r["verdict"]),
            first_of(source, r["cells"]),
        ]
        for r in rows
    ]
    return Section(
        "pooled",
        "Cold and pooled handshakes",
        (
            Table(
                "pooled-table",
                "Handshakes that make their key pair, and handshakes that find one ready, in the same cells",
                (
                    Column("suite"),
                    Column("condition"),
                    Column("cells", "n", True),
                    Column("cold", "ms", True),
                    Column("handshakes", "n", True),
                    Column("pooled", "ms", True),
                    Column("handshakes", "n", True),
                    Column("pooled / cold", "", True),
                    Column("95 % interval"),
                    Column("verdict"),
                    Column("first cell"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/pooled.csv",
            ),
        ),
        "Every other table of this report is about cold handshakes. A pool moves the key generation out of "
        "the handshake, it does not save it: the ground makes the next pair meanwhile, on the same cores.",
    )
