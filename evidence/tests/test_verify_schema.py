"""Our reading of JSON Schema against the reference implementation, on the documents that it judges."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jsonschema
import pytest
import yaml
from bundle_kit import make_ready
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.kernel.schema import KEYWORDS, schema_errors
from pqevidence.paths import project_root

ODD = [
    None,
    "",
    "x",
    0,
    1,
    -1,
    1.0,
    1.5,
    1e308,
    float("nan"),
    True,
    False,
    [],
    {},
    [1, 1.0],
    [True, 1],
    {"a": 1},
]
PLACES = (
    ("pqevidence.scenario", "scenario.schema.json"),
    ("pqevidence", "plan.schema.json"),
    ("pqevidence.bundle", "correction.schema.json"),
    ("pqevidence", "record.schema.json"),
)
ROUNDS = 400


def schema(package: str, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))
    return loaded


def valid(document: Any, rule: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(rule).is_valid(document))


def agree(document: Any, rule: dict[str, Any]) -> None:
    ours = schema_errors(document, rule)
    assert (not ours) == valid(document, rule), (document, ours)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    work = make_ready(tmp_path_factory.mktemp("ready"), suites=("cs-mlkem768-aesgcm-mldsa65",)) / "data"
    record = json.loads(next(work.glob("cells/*/record.json")).read_text(encoding="utf-8"))
    scenarios = sorted((project_root() / "scenarios").glob("*.yml"))
    return {
        "scenario.schema.json": [yaml.safe_load(path.read_text(encoding="utf-8")) for path in scenarios],
        "plan.schema.json": [json.loads((work / "plan.json").read_text(encoding="utf-8"))],
        "record.schema.json": [{**record, "categories": {k: record["categories"][k] for k in "DE"}}],
        "correction.schema.json": [
            {
                "schema_version": "pqlab/correction/v1",
                "number": 1,
                "action": "withdraw",
                "reason": "a fan was switched on",
                "created_utc": "2026-03-01T13:00:00Z",
                "of": {"run_id": "20260301T120000Z-ab12cd", "manifest_sha512": "ab" * 64},
                "cells": ["0123456789abcdef"],
            }
        ],
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from places(value[key], (*path, key))


def damaged(document: Any, rng: random.Random) -> Any:
    spoiled = copy.deepcopy(document)
    *home, key = rng.choice(list(places(document)))
    holder = spoiled
    for part in home:
        holder = holder[part]
    what = rng.randrange(3)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder["unheard_of"] = rng.choice(ODD)
    else:
        holder[key] = rng.choice(ODD)
    return spoiled


@pytest.mark.parametrize(("package", "name"), PLACES)
def test_both_judge_damaged_documents_alike(package: str, name: str, documents: dict[str, list[Any]]) -> None:
    rule = schema(package, name)
    rng = random.Random(name)
    refused = 0
    for document in documents[name]:
        agree(document, rule)
    for _ in range(ROUNDS // (8 if name.startswith("record") else 1)):
        document = damaged(rng.choice(documents[name]), rng)
        agree(document, rule)
        refused += bool(schema_errors(document, rule))
    assert refused > 10


RULES = [
    {"type": ["integer", "null"], "minimum": 0, "maximum": 2},
    {"type": "number", "exclusiveMinimum": 1},
    {"enum": [1, "x", None, [1]]},
    {"const": 0},
    {"type": "array", "minItems": 1, "maxItems": 1, "uniqueItems": True, "items": {"type": "number"}},
    {"uniqueItems": True},
    {"minProperties": 1, "propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "integer"}},
    {"patternProperties": {"^a$": {"const": 1}}, "additionalProperties": False},
    {
        "if": {"type": "string"},
        "then": {"minLength": 1, "maxLength": 1},
        "else": {"type": ["number", "array"]},
    },
    {"allOf": [{"type": "number"}, {"minimum": 1}]},
    {"anyOf": [{"type": "string"}, {"minimum": 1, "type": "number"}]},
    {"oneOf": [{"type": "number"}, {"minimum": 1}]},
    {"$ref": "#/$defs/whole", "$defs": {"whole": {"type": "integer"}}},
    {"properties": {"a": False}, "required": ["a"]},
]


@given(st.sampled_from(RULES), st.sampled_from(ODD))
def test_both_judge_odd_values_alike(rule: dict[str, Any], value: Any) -> None:
    agree(value, rule)


def test_every_keyword_of_our_schemas_is_known() -> None:
    def keywords(rule: Any) -> Iterator[str]:
        if not isinstance(rule, dict):
            return
        for key, inner in rule.items():
            yield key
            if key in ("properties", "patternProperties", "$defs"):
                for part in inner.values():
                    yield from keywords(part)
            elif key in ("items", "if", "then", "else", "additionalProperties", "propertyNames"):
                yield from keywords(inner)
            elif key in ("allOf", "anyOf", "oneOf"):
                for part in inner:
                    yield from keywords(part)

    for place in PLACES:
        assert set(keywords(schema(*place))) <= KEYWORDS, place


def test_an_unknown_keyword_is_our_error() -> None:
    with pytest.raises(ValueError, match="multipleOf"):
        schema_errors(3, {"multipleOf": 2})


def test_errors_name_their_place() -> None:
    assert schema_errors(
        {"cells": [{"n": -1}, {}]},
        {"properties": {"cells": {"items": {"required": ["n"], "properties": {"n": {"minimum": 0}}}}}},
    ) == ["cells/0/n: -1 is below 0", "cells/1: 'n' is missing"]
