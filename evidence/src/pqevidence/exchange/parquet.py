"""A bundle's tables as Parquet: typed columns whose metadata say unit and meaning.

In scope: records (a row a cell), fields (a row a field of a record, with its validity and reason), spans,
both ledgers and every other plain CSV of the bundle. Not in scope: power samples and radio traces, which are
no plain CSV, earlier attempts, and checks, which are `verify`'s.

Units, sources and descriptions are those of the catalogue of fields and of the bundle's data package. They
stand in each column's metadata and, for readers that do not show these, once more as JSON under the file's
key `pqlab`. pyarrow writes the files; it is no dependency of the lab but asked for when this is.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pqbase.documents import part_of, rows_of, text_or_none, texts_of
from pqevidence.bundle.format import data_package
from pqevidence.errors import EXIT_ENVIRONMENT, LabError
from pqevidence.record.raw import Json, RawDataError, read_ndjson, read_object
from pqevidence.record.sheet import FieldSpec, catalogue

FILE_KEY = b"pqlab"
SUFFIX = ".parquet"
#: rows that are gathered before they are written: a row group of a reader's liking
GROUP_ROWS = 200_000
INSTALL = "python3 -m pip install --require-hashes -r requirements/parquet.txt"
_OF_CELL = re.compile(r"cells/([0-9a-f]{16})/[^/]+\.csv")
_OF_RUN = re.compile(r"analysis/[^/]+\.csv")
_END_OF = {"N": "drone", "O": "gcs"}


@dataclass(frozen=True)
class Column:
    """One column; kind: integer, number, boolean or string. unit None: a name, a flag or a text."""

    name: str
    kind: str
    unit: str | None = None
    description: str | None = None
    source: str | None = None

    def told(self) -> dict[str, str]:
        """What its metadata say."""
        known = {"unit": self.unit, "description": self.description, "source": self.source}
        return {key: value for key, value in known.items() if value}


@dataclass(frozen=True)
class Written:
    """A file that was written, and what is in it."""

    path: Path
    rows_count: int
    columns_count: int


KEYS = (
    Column("cell_id", "string", None, "Cell: 16 hex of the hash of suite, settings, repetition and builds"),
    Column("suite_id", "string", None, "Suite of the cell"),
    Column("condition", "string", None, "Condition of the scenario that the cell was measured under"),
    Column("repetition", "integer", None, "Repetition of the matrix, as the plan counts"),
)
_RECORD = (
    Column("position", "integer", None, "Place of the cell in the plan"),
    Column("ring", "string", None, "What the numbers may claim: sim, lab, hardware", "record.json"),
    Column("verdict", "string", None, "pass, fail, invalid, unsupported or not-run", "record.json"),
    Column("reason", "string", None, "Why the verdict is not pass", "record.json"),
    Column("attempts", "integer", None, "Attempts that were made, all of them kept", "record.json"),
)
_FIELD = (
    Column("category", "string", None, "Letter of the catalogue"),
    Column("field", "string", None, "Name of the field"),
    Column("unit", "string", None, "Unit of the value"),
    Column("value", "number", None, "The value where it is a number, null where it is missing or a text"),
    Column("value_text", "string", None, "The value where it is none: text, true or false, a map as JSON"),
    Column("validity", "string", None, "ok, null, invalid (forbidden as a claim) or model"),
    Column("reason", "string", None, "Why it is null, invalid or of a model"),
    Column("n", "integer", None, "Samples behind the value"),
    Column("source", "string", None, "Raw file that it was made from"),
)
_SPAN = (
    Column("host", "string", None, "End whose clock timed it"),
    Column("handshake_id", "string", None, "Handshake, at both ends"),
    Column("index", "integer", None, "Number of the handshake at that end, within its block"),
    Column("mode", "string", None, "cold, pooled, rekey or redial"),
    Column("purpose", "string", None, "What the handshake was for"),
    Column("handshake_suite_id", "string", None, "Suite of the handshake; a rekey may switch to another"),
    Column("step", "string", None, "Step of the handshake; handshake is that end's whole wall"),
    Column("kind", "string", None, "What kind of work it is: crypto, kdf, codec, network …"),
    Column("start_ns", "integer", "ns", "Begin, on the host's monotonic clock"),
    Column("end_ns", "integer", "ns", "End, on the host's monotonic clock"),
    Column("size_bytes", "integer", "By", "Size of what was made or sent"),
    Column("cpu_ns", "integer", "ns", "Processor time of the thread that did it"),
    Column("runqueue_ns", "integer", "ns", "Time in which that thread could run and had no processor"),
    Column("involuntary", "integer", "1", "How often it was taken off its processor"),
    Column("keygen", "string", None, "Where the key pair came from"),
    Column("clock", "string", None, "Clock of start_ns and end_ns"),
)
_LEDGER = {
    "direction": "tx: sent by this end; rx: received",
    "epoch": "Epoch of the keys; with sequence it names a datagram at both ends",
    "sequence": "Number within the epoch and direction",
    "size_bytes": "Sealed size of the datagram",
    "t_in_ns": "Kernel's receive time, realtime of this end",
    "t_out_ns": "Realtime after the send call",
    "window": "Window that the datagram belongs to",
}


def write_tables(bundle: Path, folder: Path) -> list[Written]:
    """Write every table of the bundle below `folder`, one file each, and say what was written.

    Equal bundles give equal files with the same pyarrow. Raises LabError `no-pyarrow` (4) where it is not
    installed, RawDataError (5) for a file that cannot be read as its columns say.
    """
    arrow = _arrow()
    data = bundle / "data"
    plan = read_object(data / "plan.json")
    version = read_object(data / "run.json").get("pqlab_version")
    about = {"run_id": plan.get("run_id"), "pqlab_version": version}
    cells = sorted((dict(row) for row in plan["cells"]), key=lambda row: int(row["position"]))
    sink = _Sink(arrow, folder, about)
    columns = record_columns()
    records = [(cell, record) for cell in cells if (record := _record(data, cell)) is not None]
    found = [
        sink.write(
            "records", [*KEYS, *_RECORD, *columns.values()], (_wide(*row, columns) for row in records)
        ),
        sink.write("fields", [*KEYS, *_FIELD], (_long(*row) for row in records)),
        sink.write("spans", [*KEYS, *_SPAN], (_spans(data, cell) for cell in cells)),
    ]
    found += [sink.write_csv(*table, cells) for table in _csv_tables(data)]
    return found


def record_columns() -> dict[tuple[str, str], Column]:
    """(letter, field) → its column in `records`. A name that both ends have begins with the end's."""
    specs = [spec for category in catalogue().values() for spec in category.fields.values()]
    taken = Counter(spec.name for spec in specs)
    own = {column.name for column in (*KEYS, *_RECORD)}
    found = {}
    for spec in specs:
        name = f"{_END_OF[spec.letter]}_{spec.name}" if taken[spec.name] > 1 else spec.name
        if name not in own:
            column = Column(name, _kind_of(spec), spec.unit, spec.description, spec.source)
            found[spec.letter, spec.name] = column
    return found


def _kind_of(spec: FieldSpec) -> str:
    """Load averages are called counts and are none."""
    if spec.unit in ("text", "map"):
        return "string"
    if spec.unit == "bool":
        return "boolean"
    return "integer" if spec.unit in ("count", "B") and not spec.name.startswith("load_avg") else "number"


def _record(data: Path, cell: Json) -> Json | None:
    path = data / "cells" / str(cell["cell_id"]) / "record.json"
    return read_object(path) if path.is_file() else None


def _wide(cell: Json, record: Json, columns: dict[tuple[str, str], Column]) -> list[Json]:
    """One row; a value that may not be claimed is null, as it is in every table."""
    row: Json = {column.name: cell[column.name] for column in KEYS}
    row |= {column.name: record.get(column.name) for column in _RECORD}
    for (letter, name), column in columns.items():
        field = record["categories"].get(letter, {}).get(name)
        if field is not None and field["validity"] != "invalid":
            value = field["value"]
            row[column.name] = _json(value) if isinstance(value, dict) else value
    return [row]


def _long(cell: Json, record: Json) -> list[Json]:
    keys = {column.name: cell[column.name] for column in KEYS}
    rows = []
    for letter, fields in record["categories"].items():
        for name, field in fields.items():
            value = field["value"]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            text = None if value is None or number else value if isinstance(value, str) else _json(value)
            rows.append(
                {
                    **keys,
                    "category": letter,
                    "field": name,
                    "unit": field["unit"],
                    "value": float(value) if number else None,
                    "value_text": text,
                    "validity": field["validity"],
                    "reason": field["reason"],
                    "n": field["n"],
                    "source": field["source"],
                }
            )
    return rows


def _spans(data: Path, cell: Json) -> list[Json]:
    path = data / "cells" / str(cell["cell_id"]) / "spans.ndjson"
    keys = {column.name: cell[column.name] for column in KEYS}
    rows = read_ndjson(path) if path.is_file() else []
    return [{**row, "handshake_suite_id": row.get("suite_id"), **keys} for row in rows]


def _csv_tables(data: Path) -> Iterator[tuple[str, list[Column], list[Path]]]:
    """(name, columns, files) of each kind of plain CSV; those of cells are of the last attempts."""
    known = {spec.name: spec for category in catalogue().values() for spec in category.fields.values()}
    for resource in rows_of(data_package(data), "resources"):
        one_file = isinstance(resource["path"], str)
        paths = [str(resource["path"])] if one_file else texts_of(resource, "path")
        paths = [path for path in paths if _OF_CELL.fullmatch(path) or _OF_RUN.fullmatch(path)]
        columns = []
        for field in rows_of(part_of(resource, "schema"), "fields"):
            name = str(field["name"])
            spec = known.get(name)
            told = _LEDGER.get(name) if "ledger" in str(resource["name"]) else None
            described = told or (spec.description if spec else None)
            columns.append(Column(name, str(field["type"]), text_or_none(field, "unit"), described))
        if paths:
            yield str(resource["name"]), columns, [data / path for path in paths]


class _Sink:
    """Writes one file after another; a file is there once it is whole."""

    def __init__(self, arrow: Any, folder: Path, about: Json) -> None:
        self.arrow = arrow
        self.writing = importlib.import_module("pyarrow.parquet")
        self.folder = folder
        self.about = about

    def write(self, name: str, columns: list[Column], chunks: Iterable[list[Json]]) -> Written:
        """A table of rows that come in chunks."""
        schema = self._schema(name, columns)
        whole = {column.name for column in columns if column.kind == "integer"}
        tables = (self._table(name, schema, whole, chunk) for chunk in chunks if chunk)
        return self._write(name, schema, tables)

    def _table(self, name: str, schema: Any, whole: set[str], rows: list[Json]) -> Any:
        # 3.0 is a whole number, too; 3.5 in such a column is an error and not 3
        rows = [{k: _whole(v) if k in whole else v for k, v in row.items()} for row in rows]
        try:
            return self.arrow.Table.from_pylist(rows, schema=schema)
        except self.arrow.ArrowException as error:
            raise RawDataError(self.folder / name, str(error)) from error

    def write_csv(self, name: str, columns: list[Column], paths: list[Path], cells: list[Json]) -> Written:
        """The table of all CSV files of one kind; rows of a cell's file get the cell's keys."""
        by_id = {str(cell["cell_id"]): cell for cell in cells}
        of_cells = [path for path in paths if path.parent.name in by_id]
        keys = list(KEYS) if of_cells else []
        schema = self._schema(name, [*keys, *columns])
        place = {cell_id: index for index, cell_id in enumerate(by_id)}
        ordered = sorted(of_cells, key=lambda path: place[path.parent.name]) or paths
        return self._write(name, schema, (self._of_csv(path, schema, keys, by_id) for path in ordered))

    def _of_csv(self, path: Path, schema: Any, keys: list[Column], by_id: dict[str, Json]) -> Any:
        reading = importlib.import_module("pyarrow.csv")
        types = {field.name: field.type for field in schema}
        options = reading.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            true_values=["true"],
            false_values=["false"],
        )
        try:
            table = reading.read_csv(
                path, convert_options=options, parse_options=reading.ParseOptions(newlines_in_values=True)
            )
            for column in keys:
                value = self.arrow.scalar(by_id[path.parent.name][column.name], types[column.name])
                table = table.append_column(column.name, self.arrow.repeat(value, table.num_rows))
            return table.select(schema.names).cast(schema)
        except (self.arrow.ArrowException, KeyError, UnicodeDecodeError) as error:
            raise RawDataError(path, str(error)) from error

    def _schema(self, name: str, columns: list[Column]) -> Any:
        types = {
            "integer": self.arrow.int64(),
            "number": self.arrow.float64(),
            "boolean": self.arrow.bool_(),
            "string": self.arrow.string(),
        }
        fields = [self.arrow.field(c.name, types[c.kind], metadata=c.told() or None) for c in columns]
        described = {column.name: {"type": column.kind, **column.told()} for column in columns}
        about = {**self.about, "table": name, "columns": described}
        return self.arrow.schema(fields, metadata={FILE_KEY: _json(about).encode()})

    def _write(self, name: str, schema: Any, tables: Iterable[Any]) -> Written:
        target = self.folder / f"{name}{SUFFIX}"
        half = target.with_name(f".{target.name}.half")
        rows, held = 0, []
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with self.writing.ParquetWriter(half, schema, compression="zstd") as writer:
                for table in tables:
                    held.append(table)
                    rows += table.num_rows
                    if sum(each.num_rows for each in held) >= GROUP_ROWS:
                        writer.write_table(self.arrow.concat_tables(held))
                        held = []
                if held:
                    writer.write_table(self.arrow.concat_tables(held))
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
        return Written(target, rows, len(schema))


def _arrow() -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise LabError(
            "no-pyarrow",
            "Parquet cannot be written here",
            "pyarrow is not installed; nothing else needs it",
            f"{INSTALL} (in .venv: .venv/bin/{INSTALL})",
            EXIT_ENVIRONMENT,
        )
    return importlib.import_module("pyarrow")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
