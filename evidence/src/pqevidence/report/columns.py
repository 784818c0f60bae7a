"""Rows of a CSV on the page, by its columns: what is declared once is not typed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pqevidence.analysis.column import Column, on_page
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell
from pqevidence.report.source import RawRow, Source, anchor

Show = Callable[[RawRow], Cell]
#: head of the column that leads to a cell's record
RAW = blocks.Column("raw")
#: why a number of this row is missing
Why = Callable[[RawRow], str | None]


def which_cell(source: Source) -> tuple[str, ...]:
    """Columns that say which cell a row is of: those by which the run's cells differ."""
    return (
        "suite_id",
        *(("condition",) if source.many_conditions else ()),
        *(("repetition",) if source.repetitions > 1 else ()),
    )


def of_cell(source: Source) -> dict[str, Show]:
    """How columns of a table of cells look."""
    return {
        "suite_id": lambda row: blocks.label(row["suite_id"], href=anchor(row["cell_id"])),
        "repetition": lambda row: blocks.count(source.nth(row["repetition"])),
        "verdict": lambda row: blocks.verdict(row["verdict"]),
    }


def counts(*names: str, why: Why | None = None) -> dict[str, Show]:
    """Whole numbers, or why they are missing."""

    def show(name: str) -> Show:
        return lambda row: blocks.count(row.get(name), reason=why(row) if why else None)

    return {name: show(name) for name in names}


def values(*names: str, why: Why | None = None, digits: int = 3) -> dict[str, Show]:
    """Measured numbers, or why they are missing."""

    def show(name: str) -> Show:
        return lambda row: blocks.number(row.get(name), digits=digits, reason=why(row) if why else None)

    return {name: show(name) for name in names}


def because(reason: str) -> Why:
    """One reason for every row."""
    return lambda row: reason


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
