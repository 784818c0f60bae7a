"""Rows of a CSV on the page, by its columns: what is declared once is not typed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pqevidence.analysis.column import Column, on_page
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell
from pqevidence.report.source import RawRow

Show = Callable[[RawRow], Cell]


def heads(columns: Sequence[Column]) -> tuple[blocks.Column, ...]:
    """Heads of those that the page shows."""
    return tuple(blocks.Column(column.heading, column.unit, column.numeric) for column in on_page(columns))


def cells(row: RawRow, columns: Sequence[Column], special: Mapping[str, Show]) -> list[Cell]:
    """The row's cells under those heads: `special` by name of the column, else a number or a text."""
    return [
        special[column.name](row)
        if column.name in special
        else blocks.number(row[column.name])
        if column.numeric
        else blocks.label(row[column.name])
        for column in on_page(columns)
    ]
