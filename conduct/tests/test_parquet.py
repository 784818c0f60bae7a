"""`pqlab export parquet`: read back by pyarrow, which wrote it, and by DuckDB, whose reader is its own."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bundle_kit import make_sealed

from pqevidence.exchange import parquet
from pqevidence.record import catalogue
from pqlab.cli.main import main

Json = dict[str, Any]
NEEDS = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None or importlib.util.find_spec("duckdb") is None,
    reason="pyarrow and duckdb are not in this image",
)


@pytest.fixture(scope="module")
def out(sealed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "tables"
    assert main(["export", "parquet", str(sealed), "--out", str(folder)]) == 0
    return folder


def by_pyarrow(path: Path) -> Any:
    return importlib.import_module("pyarrow.parquet").read_table(path)


def by_duckdb(path: Path) -> list[Json]:
    rows = importlib.import_module("duckdb").sql(f"select * from read_parquet('{path}')")
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]


def records_of(sealed: Path) -> dict[str, Json]:
    paths = sealed.glob("data/cells/*/record.json")
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


@NEEDS
def test_two_readers_see_the_same_rows_in_every_file(out: Path) -> None:
    files = sorted(out.iterdir())
    assert {"records", "fields", "spans", "ledger.drone", "ledger.gcs", "by_suite"} <= {f.stem for f in files}
    for file in files:
        assert by_pyarrow(file).to_pylist() == by_duckdb(file), file.name


@NEEDS
def test_a_records_values_units_and_meanings(sealed: Path, out: Path) -> None:
    table = by_pyarrow(out / "records.parquet")
    rows = {row["cell_id"]: row for row in table.to_pylist()}
    records = records_of(sealed)
    assert rows.keys() == records.keys()
    columns = parquet.record_columns()
    specs = {(letter, name): spec for letter, c in catalogue().items() for name, spec in c.fields.items()}
    missing = 0
    for (letter, name), column in columns.items():
        told = {key.decode(): text.decode() for key, text in table.schema.field(column.name).metadata.items()}
        spec = specs[letter, name]
        assert told == {"unit": spec.unit, "description": spec.description, "source": spec.source}
        for cell_id, record in records.items():
            field = record["categories"][letter][name]
            due = None if field["validity"] == "invalid" else field["value"]
            due = json.dumps(due, sort_keys=True) if isinstance(due, dict) else due
            assert rows[cell_id][column.name] == due, column.name
            missing += due is None
    assert missing > 100, "what was not measured is null, and no 0"
    assert len({column.name for column in columns.values()}) == len(columns)
    assert {"drone_thread_count", "gcs_thread_count"} <= set(table.column_names)


@NEEDS
def test_every_field_has_its_validity_and_reason(sealed: Path, out: Path) -> None:
    rows = by_duckdb(out / "fields.parquet")
    told = {(row["cell_id"], row["category"], row["field"]): row for row in rows}
    assert len(told) == len(rows)
    for cell_id, record in records_of(sealed).items():
        for letter, fields in record["categories"].items():
            for name, field in fields.items():
                row = told.pop((cell_id, letter, name))
                for key in ("unit", "validity", "reason", "n", "source"):
                    assert row[key] == field[key]
                assert (field["value"] is None) == (row["value"] is None and row["value_text"] is None)
    assert not told


@NEEDS
def test_tables_are_those_of_the_csv_and_empty_is_null(sealed: Path, out: Path) -> None:
    nulls: Counter[str] = Counter()
    for file in sealed.glob("data/analysis/*.csv"):
        with file.open(encoding="utf-8", newline="") as handle:
            due = list(csv.DictReader(handle))
        rows = by_duckdb(out / f"{file.stem}.parquet")
        assert len(rows) == len(due)
        for row, texts in zip(rows, due, strict=True):
            assert row.keys() == texts.keys()
            for name, text in texts.items():
                value = row[name]
                if text == "":
                    nulls[file.stem] += value is None
                    assert value is None, (file.name, name)
                elif isinstance(value, bool):
                    assert text == str(value).lower()
                elif isinstance(value, int | float):
                    assert value == float(text)
                else:
                    assert value == text
    assert sum(nulls.values()) > 20


@NEEDS
def test_types_and_units_of_times(out: Path) -> None:
    arrow = importlib.import_module("pyarrow")
    spans = by_pyarrow(out / "spans.parquet").schema
    assert spans.field("end_ns").type == arrow.int64() and spans.field("end_ns").metadata[b"unit"] == b"ns"
    walls = by_pyarrow(out / "handshakes.parquet").schema.field("drone_wall_median_ms")
    assert walls.type == arrow.float64() and walls.metadata[b"unit"] == b"ms"
    came = by_pyarrow(out / "ledger.gcs.parquet").schema.field("t_in_ns")
    assert came.type == arrow.int64() and b"description" in came.metadata
    told = importlib.import_module("duckdb").sql(
        f"select decode(key), decode(value) from parquet_kv_metadata('{out / 'spans.parquet'}')"
    )
    about = json.loads(dict(told.fetchall())["pqlab"])
    assert about["table"] == "spans" and about["columns"]["end_ns"]["unit"] == "ns"


@NEEDS
def test_every_span_and_ledger_row_is_there_with_its_cell(sealed: Path, out: Path) -> None:
    for name, file in (("spans", "spans.ndjson"), ("ledger.drone", "ledger.drone.csv")):
        due = Counter(
            {
                path.parent.name: path.read_bytes().count(b"\n") - file.endswith(".csv")
                for path in sealed.glob(f"data/cells/*/{file}")
            }
        )
        rows = by_duckdb(out / f"{name}.parquet")
        assert Counter(row["cell_id"] for row in rows) == due
        assert all(row["suite_id"] and row["repetition"] is not None for row in rows)


@NEEDS
def test_equal_bundles_give_equal_bytes(sealed: Path, out: Path, tmp_path: Path) -> None:
    parquet.write_tables(sealed, tmp_path)
    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == [
        file.read_bytes() for file in sorted(out.iterdir())
    ]


@NEEDS
def test_a_damaged_file_ends_with_5_and_leaves_no_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_sealed(tmp_path / "made")
    ledger = next(bundle.glob("data/cells/*/ledger.gcs.csv"))
    ledger.write_text(ledger.read_text().replace("traffic\n", "traffic,one more\n", 1))
    assert main(["export", "parquet", str(bundle), "--out", str(tmp_path / "out")]) == 5
    assert "ledger.gcs.csv cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out" / "ledger.gcs.parquet").exists()
    assert not list((tmp_path / "out").glob(".*"))


def test_without_pyarrow_one_sentence_says_how_to_get_it(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parquet.importlib.util, "find_spec", lambda name: None)
    assert main(["export", "parquet", str(sealed), "--out", str(tmp_path / "out")]) == 4
    assert "pip install --require-hashes -r requirements/parquet.txt" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_tables_are_of_all_cells(sealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "parquet", str(sealed), "--cell", "0"]) == 2
    assert "choose rows by their cell_id" in capsys.readouterr().err
