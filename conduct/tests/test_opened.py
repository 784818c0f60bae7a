"""What a bundle says of its own format, and the loader of its rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import pqlab
from pqevidence.bundle.format import dictionary
from pqevidence.errors import LabError
from pqevidence.record import catalogue

BOOLEANS = {"true": True, "false": False}
TYPES = {"integer": int, "number": float, "boolean": BOOLEANS.__getitem__, "string": str}


def test_every_csv_is_described_and_reads_as_it_says(sealed: Path) -> None:
    data = sealed / "data"
    package = json.loads((data / "datapackage.json").read_text(encoding="utf-8"))
    seen = set()
    for resource in package["resources"]:
        paths = resource["path"] if isinstance(resource["path"], list) else [resource["path"]]
        for path in paths:
            seen.add(path)
            with (data / path).open(encoding="utf-8", newline="") as handle:
                rows = csv.DictReader(handle)
                assert rows.fieldnames == [field["name"] for field in resource["schema"]["fields"]]
                for row in rows:
                    for field in resource["schema"]["fields"]:
                        if row[field["name"]]:
                            TYPES[field["type"]](row[field["name"]])
    assert seen == {path.relative_to(data).as_posix() for path in data.rglob("*.csv")}
    assert len({resource["name"] for resource in package["resources"]}) == len(package["resources"])


def test_units_come_from_the_names(sealed: Path) -> None:
    package = json.loads((sealed / "data" / "datapackage.json").read_text(encoding="utf-8"))
    ledger = next(r for r in package["resources"] if r["name"] == "ledger.drone")
    told = {field["name"]: (field["type"], field.get("unit")) for field in ledger["schema"]["fields"]}
    assert told["t_in_ns"] == ("integer", "ns") and told["size_bytes"] == ("integer", "By")
    assert told["direction"] == ("string", None)


def test_the_dictionary_has_every_field(sealed: Path) -> None:
    told = json.loads((sealed / "data" / "format" / "fields.json").read_text(encoding="utf-8"))
    names = {(field["category"], field["name"]) for field in told["fields"]}
    assert names == {(c, name) for c, category in catalogue().items() for name in category.fields}
    assert told == dictionary()


def test_the_schemas_are_those_of_the_checks(sealed: Path) -> None:
    schema = json.loads((sealed / "data" / "format" / "record.schema.json").read_text(encoding="utf-8"))
    record = json.loads(next((sealed / "data").glob("cells/*/record.json")).read_text(encoding="utf-8"))
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(record, schema)


def test_five_lines_give_rows(sealed: Path) -> None:
    opened = pqlab.open(sealed, frames=False)
    walls = [row for row in opened.spans if row["step"] == "handshake" and row["host"] == "drone"]
    assert len(walls) == 3 * 8
    assert {row["suite_id"] for row in walls} == {row["suite_id"] for row in opened.plan}
    assert all(row["cell_id"] and row["end_ns"] > row["start_ns"] for row in walls)
    ledger = opened.ledger("gcs")
    assert {row["direction"] for row in ledger} == {"tx", "rx"} and isinstance(ledger[0]["t_in_ns"], int)
    assert [row["verdict"] for row in opened.records] == ["pass"] * 3
    assert all(isinstance(row["handshake_total_duration_ms"], float) for row in opened.records)
    assert {row["suite_id"] for row in opened.table("by_suite")} == {row["suite_id"] for row in opened.plan}
    assert opened.events[0]["repetition"] == 0


def test_frames_without_pandas_are_an_error(sealed: Path) -> None:
    with pytest.raises(LabError) as caught:
        pqlab.open(sealed, frames=True)
    assert caught.value.code == "no-pandas"


def test_what_is_no_bundle_is_told(sealed: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        pqlab.open(tmp_path)
    assert caught.value.code == "not-a-bundle"
    with pytest.raises(LabError, match="no table nothing"):
        pqlab.open(sealed).table("nothing")
