"""A bundle's rows for analysis elsewhere: `pqlab.open(path).spans`, as a pandas DataFrame where pandas is
installed, else as a list of dicts. Files are read when asked for and not checked: that is `pqlab verify`."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, LabError

Row = dict[str, Any]
#: of the plan, added to each row of a cell
_KEYS = ("cell_id", "suite_id", "condition", "repetition")


class Opened:
    """A bundle on the disk.

    path: its folder, or the data/ within. frames: rows as pandas DataFrames; None where pandas is installed.
    Raises LabError `not-a-bundle`, or `no-pandas` where frames are asked for and there is none.
    """

    def __init__(self, path: str | Path, *, frames: bool | None = None) -> None:
        root = Path(path)
        self.data = root / "data" if (root / "data").is_dir() else root
        if not (self.data / "plan.json").is_file():
            raise LabError(
                "not-a-bundle",
                f"{path} holds no bundle",
                "there is no data/plan.json in it",
                "name a folder under results/, or unpack an archive: ./pqlab unpack FILE",
                EXIT_ENVIRONMENT,
            )
        there = importlib.util.find_spec("pandas") is not None
        if frames and not there:
            raise LabError(
                "no-pandas",
                "DataFrames were asked for",
                "pandas is not installed",
                "pip install pandas, or leave `frames` out",
                EXIT_ENVIRONMENT,
            )
        self.frames = there if frames is None else frames

    @property
    def plan(self) -> list[Row]:
        """Rows of the plan, in running order."""
        cells = json.loads((self.data / "plan.json").read_text(encoding="utf-8"))["cells"]
        return sorted(cells, key=lambda row: int(row["position"]))

    @property
    def records(self) -> Any:
        """One row a cell that has a record: the plan's keys, verdict, reason, and the value of each field
        under its own name; null where nothing was measured."""
        return self._given(self._records())

    @property
    def spans(self) -> Any:
        """spans.ndjson of all cells: one row a step; times in monotonic ns of their host."""
        return self._given(self._of_cells("spans.ndjson", _ndjson))

    @property
    def events(self) -> Any:
        """events.ndjson of all cells."""
        return self._given(self._of_cells("events.ndjson", _ndjson))

    def ledger(self, end: str) -> Any:
        """ledger.<end>.csv of all cells; end: `drone` or `gcs`. Times in realtime ns."""
        return self._given(self._of_cells(f"ledger.{end}.csv", _csv))

    def table(self, name: str) -> Any:
        """analysis/<name>.csv. Raises LabError `no-table`, naming those that there are."""
        path = self.data / "analysis" / f"{name}.csv"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.csv")))
            raise LabError(
                "no-table",
                f"the bundle has no table {name}",
                f"it has {known or 'none'}",
                "name one of them",
                EXIT_ENVIRONMENT,
            )
        return self._given(_csv(path))

    def _records(self) -> Iterator[Row]:
        for row in self.plan:
            path = self.data / "cells" / row["cell_id"] / "record.json"
            if path.is_file():
                record = json.loads(path.read_text(encoding="utf-8"))
                told = {key: row[key] for key in _KEYS}
                told |= {"verdict": record["verdict"], "reason": record["reason"]}
                for fields in record["categories"].values():
                    told |= {name: field["value"] for name, field in fields.items() if name not in told}
                yield told

    def _of_cells(self, name: str, read: Callable[[Path], Iterator[Row]]) -> Iterator[Row]:
        for row in self.plan:
            path = self.data / "cells" / row["cell_id"] / name
            if path.is_file():
                keys = {key: row[key] for key in _KEYS}
                for line in read(path):
                    yield {**line, **keys}

    def _given(self, rows: Iterator[Row]) -> Any:
        if not self.frames:
            return list(rows)
        return importlib.import_module("pandas").DataFrame(list(rows))


def _ndjson(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as handle:
        for number, line in enumerate(handle, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise _damaged(path, number, str(error)) from error


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            yield {key: _value(text) for key, text in row.items()}


def _value(text: str | None) -> Any:
    """A field of a CSV: empty is missing, never zero."""
    if not text:
        return None
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _damaged(path: Path, line: int, why: str) -> LabError:
    return LabError(
        "raw-data",
        f"{path.parent.name}/{path.name}, line {line} cannot be read",
        why,
        "run `pqlab verify` on the bundle",
        EXIT_CHECK,
    )
