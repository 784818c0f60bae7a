"""Every printed number leads somewhere, and is what the raw files give once more."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from bundle_kit import make_sealed

from pqlab.analysis import checklist_table, tables_of
from pqlab.analysis.comparison import reference_dir
from pqlab.analysis.load import BundleData
from pqlab.record import build_record, load_context
from pqlab.report.svg import significant


class Printed(HTMLParser):
    """Number cells of every table with what stands under it, and the field tables of the cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        #: table id → (shown, sort key) of its number cells
        self.numbers: dict[str, list[tuple[str, str]]] = {}
        #: table id → the file it says it is from
        self.source: dict[str, str] = {}
        #: cell section → rows of its field tables
        self.fields: dict[str, list[list[str]]] = {}
        self._table: str | None = None
        self._last = ""
        self._cell: str | None = None
        self._number: str | None = None
        self._text: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            if values.get("class") == "src" and self._last:
                self.source[self._last] = values["href"]
        if tag == "details" and values.get("class") == "cell":
            self._cell = values["id"]
            self.fields[self._cell] = []
        if tag == "table":
            self._table = self._last = values.get("id", "")
        if tag == "figure":
            self._last = ""
        if self._table is None:
            return
        if tag == "tr" and self._cell and not self._table:
            self.fields[self._cell].append([])
        if tag in ("td", "th"):
            self._text = []
            kinds = values.get("class", "").split()
            self._number = values.get("data-s", "") if "num" in kinds and self._table else None

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = None
        if tag in ("td", "th") and self._text is not None:
            text = "".join(self._text).strip()
            if self._number is not None and self._table:
                # a key that its text repeats is left out
                key = self._number or format(float(text.replace(",", "")), ".9g")
                self.numbers.setdefault(self._table, []).append((text, key))
            if self._cell and not self._table and self.fields[self._cell]:
                self.fields[self._cell][-1].append(text)
            self._text, self._number = None, None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sealed(tmp_path_factory.mktemp("sealed"), repetitions=3)


@pytest.fixture(scope="module")
def printed(sealed: Path) -> Printed:
    return Printed((sealed / "data" / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def again(sealed: Path) -> dict[str, str]:
    """analysis/<name>.csv → its text, made again from the raw files; the sealed tables are not read."""
    tables = [*tables_of(BundleData(sealed), reference_dir()), checklist_table(sealed)]
    return {f"analysis/{table.name}.csv": table.csv_text() for table in tables}


def numbers_of(text: str) -> set[str]:
    """Every number of a table to nine digits, as a page's sort keys have them."""
    found = set()
    for row in csv.DictReader(io.StringIO(text)):
        for value in row.values():
            if re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", value or ""):
                found.add(format(float(value), ".9g"))
    return found


def test_every_link_resolves(sealed: Path, printed: Printed) -> None:
    assert len(printed.links) > 100
    for link in printed.links:
        if link.startswith("#"):
            assert link[1:] in printed.ids, link
        else:
            assert (sealed / "data" / link).is_file(), link


def test_every_number_of_a_table_is_in_the_table_it_links_made_again(
    printed: Printed, again: dict[str, str]
) -> None:
    seen = 0
    known = set().union(*(numbers_of(text) for text in again.values()))
    for name, cells in printed.numbers.items():
        assert name in printed.source, f"{name} prints {len(cells)} numbers and names no file"
        linked = numbers_of(again[printed.source[name]])
        assert any(key in linked for _, key in cells), f"{name} has no number of {printed.source[name]}"
        for text, key in cells:
            seen += 1
            assert key in known, f"{name}: {text} ({key}) is in no table"
    assert seen > 300


def test_every_field_of_every_cell_is_that_of_its_record_made_again(sealed: Path, printed: Printed) -> None:
    context = load_context(sealed / "data")
    plan = {f"cell-{row['cell_id']}": row for row in context.plan["cells"]}
    assert set(printed.fields) == set(plan)
    seen = 0
    for section, rows in printed.fields.items():
        row = plan[section]
        record = build_record(sealed / "data" / "cells" / row["cell_id"], row, context)
        sealed_record = json.loads((sealed / "data" / "cells" / row["cell_id"] / "record.json").read_text())
        assert json.loads(json.dumps(record)) == sealed_record
        fields = [
            (name, field)
            for letter, part in sorted(record["categories"].items())
            for name, field in part.items()
            if not (letter == "P" and field["value"] is None)
        ]
        told = [cells for cells in rows if cells[0] != "field"]
        assert len(told) == len(fields)
        for (name, value, unit, *_), (due_name, due) in zip(told, fields, strict=True):
            assert (name, unit) == (due_name, due["unit"])
            if due["value"] is None:
                assert value == f"not measured: {due['reason']}", name
                continue
            seen += 1
            if isinstance(due["value"], float):
                assert value.split(" (")[0] == significant(due["value"], 4), name
            elif isinstance(due["value"], int) and not isinstance(due["value"], bool):
                assert value.split(" (")[0] == f"{due['value']:,}", name
    assert seen > 1000
