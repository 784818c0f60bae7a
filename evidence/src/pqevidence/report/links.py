"""Links from a row that stands for several cells."""

from __future__ import annotations

from pqevidence.report import blocks
from pqevidence.report.blocks import Cell
from pqevidence.report.source import Source, cell_link


def first_of(source: Source, cells: str) -> Cell:
    """The first of the cells, by ids with blanks between, and how many more there are."""
    first, *rest = cells.split() or [""]
    if not first:
        return blocks.missing("no cell passed")
    text = f"{first[:8]} and {len(rest)} more" if rest else None
    return cell_link(source.cells[first].cell_id, text)
