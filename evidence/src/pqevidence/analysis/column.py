"""A column of a table, declared once: for the CSV, for the page, and for docs/FIELDS.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column.

    name: in the CSV; ends in its unit where it has one.
    doc: what it holds, for whoever reads the CSV.
    heading: on the page; without one the column is in the CSV alone. unit: what stands below the heading.
    numeric: numbers align right on the page.
    """

    name: str
    doc: str
    heading: str = ""
    unit: str = ""
    numeric: bool = False


def names(columns: Iterable[Column]) -> tuple[str, ...]:
    """The header of the CSV."""
    return tuple(column.name for column in columns)


def pick(columns: Iterable[Column], *chosen: str) -> tuple[Column, ...]:
    """Columns by name, in the order named. KeyError for one that is not there."""
    known = {column.name: column for column in columns}
    return tuple(known[name] for name in chosen)


def on_page(columns: Iterable[Column]) -> Iterator[Column]:
    """Those that the page shows, in their order."""
    return (column for column in columns if column.heading)


#: what every table of cells begins with
CELL = (
    Column("cell_id", "cell"),
    Column("suite_id", "suite", "suite"),
    Column("kem", "KEM of the suite"),
    Column("sig", "signature of the suite"),
    Column("aead", "AEAD of the suite"),
    Column("level", "NIST level of the suite", "level", numeric=True),
    Column("kem_family", "family of the KEM"),
    Column("sig_family", "family of the signature"),
    Column("condition", "condition", "condition"),
    Column("repetition", "repetition of the plan", "rep", numeric=True),
    Column("position", "place in the order of the run"),
    Column("ring", "ring of the cell"),
    Column("verdict", "verdict of the cell", "verdict"),
)
