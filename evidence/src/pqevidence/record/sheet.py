"""The catalogue of fields and the sheet that one cell fills in.

Every field of the catalogue must be set exactly once, to a value or to null with a reason; a name the
catalogue does not know is a programming error. Values, units and sources therefore cannot drift apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import yaml

from pqbase.documents import Json, parts_of, rows_of, text_or_none, texts_of

Validity = Literal["ok", "null", "invalid", "model"]
Value = float | int | str | bool | Json | None
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)
LETTERS = "ABCDEFGHIJKLMNOPQRST"


@dataclass(frozen=True)
class FieldSpec:
    """One row of fields.yml. since: the first version of pqlab whose records have it; None for all."""

    letter: str
    name: str
    unit: str
    published: tuple[str, ...]
    source: str
    description: str
    since: str | None = None


@dataclass(frozen=True)
class Category:
    """One letter."""

    letter: str
    name: str
    title: str
    fields: Mapping[str, FieldSpec]


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, Category]:
    """fields.yml and those of the measures' folders as letter → category; read once. One of them has the
    category's title; rows of another follow the one that it names in `after`, or all that are there."""
    bodies: dict[str, Json] = {letter: {"fields": []} for letter in LETTERS}
    for text in catalogue_files().values():
        for letter, body in parts_of(_parsed(text), "categories").items():
            there, rows = bodies[letter], rows_of(bodies[letter], "fields")
            names = [row["name"] for row in rows]
            place = names.index(body["after"]) + 1 if "after" in body else len(rows)
            there.update({**body, "fields": rows[:place] + rows_of(body, "fields") + rows[place:]})
    return MappingProxyType({letter: _category(letter, bodies[letter]) for letter in LETTERS})


@lru_cache
def catalogue_of(version: str) -> Mapping[str, Category]:
    """The catalogue as records of this version of pqlab have it; the whole of it for what is no version."""
    if not _VERSION.fullmatch(version):
        return catalogue()
    return MappingProxyType(
        {
            letter: replace(
                category,
                fields=MappingProxyType(
                    {
                        name: spec
                        for name, spec in category.fields.items()
                        if spec.since is None or _numbers(spec.since) <= _numbers(version)
                    }
                ),
            )
            for letter, category in catalogue().items()
        }
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def catalogue_files() -> dict[str, str]:
    """Path below the package → text of every fields.yml, the measures' in the order of their names."""
    here = resources.files("pqevidence")
    folders = sorted((here / "measures").iterdir(), key=lambda folder: folder.name)
    found = {"fields.yml": here / "fields.yml"}
    found |= {f"measures/{folder.name}/fields.yml": folder / "fields.yml" for folder in folders}
    return {name: file.read_text(encoding="utf-8") for name, file in found.items() if file.is_file()}


def _parsed(text: str) -> Json:
    # a checker that stands alone has them as JSON: YAML without its compiled part takes a second
    as_json = text.startswith("{")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document: Json = json.loads(text) if as_json else yaml.load(text, Loader=loader)
    return document


def _category(letter: str, body: Json) -> Category:
    fields = {
        str(row["name"]): FieldSpec(
            letter,
            str(row["name"]),
            str(row["unit"]),
            tuple(texts_of(row, "published")),
            str(row["source"]),
            str(row["description"]),
            text_or_none(row, "since"),
        )
        for row in rows_of(body, "fields")
    }
    return Category(letter, str(body["name"]), str(body["title"]), MappingProxyType(fields))


@lru_cache(maxsize=1)
def record_schema() -> Json:
    """The JSON Schema (2020-12) of record.json."""
    text = resources.files("pqevidence").joinpath("record.schema.json").read_text(encoding="utf-8")
    schema: Json = json.loads(text)
    return schema


def as_value(told: object) -> Value:
    """What a raw file tells, as it is; TypeError for what no field can hold."""
    if told is None or isinstance(told, float | int | str | dict):
        return told
    raise TypeError(f"{told!r:.80} is no value of a field")


class Sheet:
    """Collects the fields of one cell."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, dict[str, Value]]] = {letter: {} for letter in LETTERS}

    def put(
        self,
        letter: str,
        name: str,
        value: Value,
        *,
        n: int | None = None,
        absent: str = "the raw files do not hold it",
        validity: Validity = "ok",
        reason: str | None = None,
    ) -> None:
        """Set a field. A value of None (or NaN) becomes null with `absent` as its reason."""
        spec = catalogue()[letter].fields[name]
        if name in self._rows[letter]:
            raise KeyError(f"{letter}.{name} is set twice")
        if isinstance(value, float):
            value = round(value, 6) if math.isfinite(value) else None
        if value is None:
            validity, reason, n = "null", absent, None
        self._rows[letter][name] = {
            "value": value,
            "unit": spec.unit,
            "source": spec.source,
            "validity": validity,
            "reason": reason,
            "n": n,
        }

    def invalidate(self, letter: str, name: str, reason: str) -> None:
        """A field that is set and good no longer counts; its value stays to be looked at."""
        row = self._rows[letter][name]
        if row["validity"] in ("ok", "model"):
            row.update(validity="invalid", reason=reason)

    def get(self, letter: str, name: str) -> Value:
        """The value already put there; None where it is null or not set yet."""
        return self._rows[letter].get(name, {}).get("value")

    def null_rest(self, letter: str, reason: str) -> None:
        """Every field of the letter that is not set yet becomes null with this reason."""
        for name in catalogue()[letter].fields:
            if name not in self._rows[letter]:
                self.put(letter, name, None, absent=reason)

    def categories(self) -> dict[str, dict[str, dict[str, Value]]]:
        """The complete sheet in catalogue order; KeyError names a field nobody set."""
        out: dict[str, dict[str, dict[str, Value]]] = {}
        for letter in LETTERS:
            fields = catalogue()[letter].fields
            unset = [name for name in fields if name not in self._rows[letter]]
            if unset:
                raise KeyError(f"{letter}: {', '.join(unset)} not set")
            out[letter] = {name: self._rows[letter][name] for name in fields}
        return out
