"""Every printed number leads somewhere, and is what the raw files give once more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import detector_bundle
import pytest
import rekey_bundle
import report_bundle
from bundle_kit import make_sealed
from measures.power import power_bundle
from printed_numbers import Printed, lost_numbers

from pqevidence.analysis.comparison import reference_dir
from pqevidence.analysis.load import BundleData
from pqevidence.derived import tables_of
from pqevidence.pages import render
from pqevidence.records import build_record, load_context
from pqevidence.report.svg import significant
from pqevidence.verify.checklist import checklist_table

CONDITIONS = tuple({"name": name, "detector": "none", "link": "none"} for name in ("baseline", "other"))
#: kind of run → its bundle; each brings tables that the others do not have
KINDS: dict[str, Callable[[Path], Path]] = {
    "run": lambda base: make_sealed(base, repetitions=3),
    "conditions": lambda base: report_bundle.make_bundle(
        base / "run", repetitions=3, conditions=CONDITIONS, bulk=False
    ),
    "rekeys": lambda base: rekey_bundle.make(base / "run"),
    "power": lambda base: power_bundle.make(base / "run"),
    "detector": lambda base: detector_bundle.make(base / "run"),
}


@pytest.fixture(scope="module", params=KINDS)
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    if not (root / "data" / "report.html").is_file():
        render(root)
    return root


@pytest.fixture(scope="module")
def printed(sealed: Path) -> Printed:
    return Printed((sealed / "data" / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def again(sealed: Path) -> dict[str, str]:
    """analysis/<name>.csv → its text, made again from the raw files; the sealed tables are not read."""
    tables = [*tables_of(BundleData(sealed), reference_dir()), checklist_table(sealed)]
    return {f"analysis/{table.name}.csv": table.csv_text() for table in tables}


def test_every_link_resolves(sealed: Path, printed: Printed) -> None:
    assert len(printed.links) > 100
    for link in printed.links:
        if link.startswith("#"):
            assert link[1:] in printed.ids, link
        else:
            assert (sealed / "data" / link).is_file(), link


def test_every_number_of_a_table_is_in_the_table_it_links_made_again(
    sealed: Path, printed: Printed, again: dict[str, str]
) -> None:
    # a run's own document is no table: it holds a number as it was told
    def content(link: str) -> str:
        return again[link] if link in again else (sealed / "data" / link).read_text(encoding="utf-8")

    assert lost_numbers(printed, content) == []
    assert sum(map(len, printed.numbers.values())) > 300


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
            for letter, part in sorted(sealed_record["categories"].items())
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
