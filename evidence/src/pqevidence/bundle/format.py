"""What a bundle says of its own format: schemas, the dictionary of fields, and a Frictionless Data Package of
every CSV. Made from the bundle's own files, without a clock: the same data give the same bytes."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from pqbase.documents import Json
from pqevidence import __version__
from pqevidence.record.sheet import catalogue_of

FOLDER = "format"
PACKAGE = "datapackage.json"
DICTIONARY = f"{FOLDER}/fields.json"
#: name in the bundle → package, file
SCHEMAS = {
    f"{FOLDER}/record.schema.json": ("pqevidence", "record.schema.json"),
    f"{FOLDER}/scenario.schema.json": ("pqevidence.scenario", "scenario.schema.json"),
    f"{FOLDER}/plan.schema.json": ("pqevidence", "plan.schema.json"),
    f"{FOLDER}/correction.schema.json": ("pqevidence.bundle", "correction.schema.json"),
}
#: end of a column's name → its unit (UCUM where it has one)
UNITS = {
    "_ns": "ns", "_us": "us", "_ms": "ms", "_s": "s", "_bytes": "By", "_pct": "%", "_hz": "Hz", "_j": "J",
    "_mj": "mJ", "_w": "W", "_mw": "mW", "_v": "V", "_a": "A", "_c": "Cel", "_count": "1", "_ratio": "1",
    "_pps": "/s", "_mbps": "Mbit/s", "_m": "m",
}  # fmt: skip
#: no plain CSV: a line of JSON before the header; radio traces as their maker wrote them
_LEFT_OUT = re.compile(r"(?:^|/)power\.(?:drone|gcs)\.csv$|^traces/")
#: millions of rows of whole numbers: of these only as many are read as it takes to see that there are some
_LEDGER = re.compile(r"(?:^|[./])ledger(?:\.(?:drone|gcs))?\.csv$")
_WHOLE_COLUMN = re.compile(r"epoch|sequence|.*_(?:ns|bytes)")
_WHOLE = re.compile(r"-?\d+")
_KINDS = ("integer", "number", "boolean")


def write_format(data: Path) -> None:
    """Write format/ and datapackage.json below `data`, for the files that lie there now."""
    (data / FOLDER).mkdir(exist_ok=True)
    for name, text in format_texts(data).items():
        (data / name).write_text(text, encoding="utf-8")


def format_texts(data: Path, version: str = __version__) -> dict[str, str]:
    """Name below `data` → text of each file about the format of what lies there, with the fields that
    records of this version of pqlab have."""
    return {**_of_version(version), PACKAGE: _text(data_package(data))}


@lru_cache(maxsize=8)
def _of_version(version: str) -> Mapping[str, str]:
    """What is the same in every bundle of it."""
    schemas = {
        name: resources.files(package).joinpath(file).read_text(encoding="utf-8")
        for name, (package, file) in SCHEMAS.items()
    }
    return MappingProxyType({**schemas, DICTIONARY: _text(dictionary(version))})


def dictionary(version: str = __version__) -> Json:
    """Every field that a record of this version can hold: letter, unit, source and meaning."""
    fields = catalogue_of(version)
    rows = [
        {
            "category": letter,
            "name": spec.name,
            "unit": spec.unit,
            "source": spec.source,
            "published": list(spec.published),
            "description": spec.description,
        }
        for letter, category in fields.items()
        for spec in category.fields.values()
    ]
    titles = {letter: category.title for letter, category in fields.items()}
    return {"schema_version": "pqlab/fields/v1", "categories": titles, "fields": rows}


def data_package(data: Path) -> Json:
    """A Frictionless Data Package v1: a resource for each kind of CSV, all files of a kind in its `path`.

    Power samples and radio traces are no plain CSV: docs/BUNDLE.md and docs/LINK.md describe them.
    """
    plan = json.loads((data / "plan.json").read_text(encoding="utf-8"))
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name in _tables_below(data):
        if not _LEFT_OUT.search(name):
            with (data / name).open(encoding="utf-8", newline="") as handle:
                header = tuple(next(csv.reader(handle), ()))
            kinds.setdefault((name.rpartition("/")[2], header), []).append(name)
    resources_told = []
    taken: set[str] = set()
    for (file, header), paths in sorted(kinds.items()):
        name = _slug(file, taken)
        schema = {"fields": _fields(data, header, paths), "missingValues": [""]}
        resources_told.append(
            {
                "name": name,
                "profile": "tabular-data-resource",
                "path": paths if len(paths) > 1 else paths[0],
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "schema": schema,
            }
        )
    return {
        "profile": "data-package",
        "name": str(plan["run_id"]).lower(),
        "id": str(plan["run_id"]),
        "title": f"Tables of campaign {plan['run_id']}",
        "resources": resources_told,
    }


def _tables_below(data: Path) -> list[str]:
    """Paths of every CSV, by their folders' names; a third of what `Path.rglob` takes."""
    found = []
    for folder, folders, files in os.walk(data):
        inside = Path(folder).relative_to(data).as_posix()
        above = "" if inside == "." else f"{inside}/"
        found += [above + name for name in (*folders, *files) if name.endswith(".csv")]
    return sorted(found, key=lambda name: name.split("/"))


def _fields(data: Path, header: tuple[str, ...], paths: list[str]) -> list[Json]:
    """Names, types that all values have, and units of the names. A column without a value is text."""
    ledger = _LEDGER.search(paths[0]) is not None
    left: dict[str, set[str]] = {column: set(_KINDS) for column in header}
    if ledger:
        left = {column: {"integer"} if _WHOLE_COLUMN.fullmatch(column) else set() for column in header}
    # the router's ledger has no row where it saw nothing
    told = set(header) if paths[0].endswith("link.ledger.csv") else set()
    for path in paths:
        if ledger and len(told) == len(header):
            break
        with (data / path).open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                if ledger and len(told) == len(header):
                    break
                for column in header:
                    value = row.get(column)
                    if value:
                        told.add(column)
                        if left[column] and not ledger:
                            left[column] &= _kinds_of(value)
    found = []
    for column in header:
        kind = next((k for k in _KINDS if k in left[column]), "string") if column in told else "string"
        field: Json = {"name": column, "type": kind}
        if kind == "boolean":
            field.update(trueValues=["true"], falseValues=["false"])
        unit = next((unit for end, unit in UNITS.items() if column.endswith(end)), None)
        if unit is not None and kind in ("integer", "number"):
            field["unit"] = unit
        found.append(field)
    return found


def _kinds_of(value: str) -> set[str]:
    if value in ("true", "false"):
        return {"boolean"}
    if _WHOLE.fullmatch(value):
        return {"integer", "number"}
    try:
        float(value)
    except ValueError:
        return set()
    return {"number"}


def _slug(file: str, taken: set[str]) -> str:
    """A resource's name: lower case, unique within the package."""
    base = re.sub(r"[^a-z0-9._-]", "-", file.removesuffix(".csv").lower())
    name, number = base, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def _text(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
