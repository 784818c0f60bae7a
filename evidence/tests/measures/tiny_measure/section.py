"""The same on the page."""

from __future__ import annotations

from pqevidence.measures.tiny.tables import COLUMNS, NAME

from pqevidence.report import blocks
from pqevidence.report.blocks import Section, Table
from pqevidence.report.columns import cells, heads
from pqevidence.report.source import Source, analysis_link


def tiny(source: Source) -> Section | None:
    """One table."""
    rows = blocks.rows_of([cells(row, COLUMNS, {}) for row in source.rows(NAME)])
    table = Table("tiny-table", "Cells of each suite", heads(COLUMNS), rows, source.ring, analysis_link(NAME))
    return Section("tiny", "Cells", (table,))
