"""A named table with units, its CSV form and the way back. Missing is an empty field, never a zero."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

from pqevidence.errors import EXIT_CHECK, LabError

Value = str | int | float | bool | None
Row = dict[str, Value]


def as_value(told: object) -> Value:
    """What a document tells, as it is; TypeError for what no table can hold."""
    if told is None or isinstance(told, str | int | float):
        return told
    raise TypeError(f"{told!r:.80} is no value of a table")


def number(row: Row, column: str) -> float:
    """A value that must be there. Raises LabError where it is missing: a missing time is not zero."""
    value = row[column]
    if value is None or isinstance(value, (str, bool)):
        raise LabError(
            "missing-number",
            f"the analysis needs {column} and has {value!r}",
            "a cell that passed, or a median of such cells, must have it",
            "./pqlab verify names the damaged file",
            exit_code=EXIT_CHECK,
        )
    return float(value)


@dataclass
class Table:
    """Rows over a fixed list of columns; column names end in their unit."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    def add(self, **values: Value) -> None:
        """Append a row; a column that is not named becomes missing, an unknown one is an error."""
        unknown = set(values) - set(self.columns)
        if unknown:
            raise KeyError(f"{self.name} has no column {sorted(unknown)}")
        self.rows.append({column: values.get(column) for column in self.columns})

    def csv_text(self) -> str:
        """CSV with a header, LF line ends, floats to nine significant digits (same bytes everywhere)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([_field(row[column]) for column in self.columns])
        return out.getvalue()

    def write(self, directory: Path) -> Path:
        """Write ``<name>.csv`` into the directory."""
        path = directory / f"{self.name}.csv"
        path.write_text(self.csv_text(), encoding="utf-8", newline="")
        return path


def _field(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(value, ".9g")
    return str(value)


def read_rows(path: Path | Traversable) -> list[dict[str, str]]:
    """Rows of an analysis CSV as text; a missing file is an error with the command that makes it."""
    if not path.is_file():
        raise LabError(
            "no-analysis",
            f"the bundle has no data/analysis/{path.name}",
            "the analysis step did not run before sealing",
            "./pqlab resume finishes an interrupted run",
            EXIT_CHECK,
        )
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


def to_float(value: str | None) -> float | None:
    """A CSV field as a number; empty is missing."""
    return float(value) if value else None


def present(values: Iterable[float | None]) -> list[float]:
    """The values that are there."""
    return [v for v in values if v is not None]
