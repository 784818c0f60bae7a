"""A parsed scenario against the shipped JSON Schema, in a user's words: line, key, nearest valid key."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from pqlab.scenario.marks import KeyPath, MarkedYaml


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a scenario: 1-based line, what is wrong, what is allowed, what to write instead."""

    line: int
    message: str
    why: str
    hint: str


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of scenarios, as shipped beside this module."""
    text = resources.files("pqlab.scenario").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def problems(marked: MarkedYaml) -> list[Problem]:
    """Everything the schema refuses, in line order."""
    found: list[Problem] = []
    for error in Draft202012Validator(schema()).iter_errors(marked.data):
        found.extend(_explain(error, marked))
    return sorted(set(found), key=lambda p: (p.line, p.message))


def nearest(word: str, allowed: list[str]) -> str | None:
    """The allowed word a typing slip away from `word`, or None."""
    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return close[0] if close else None


def _explain(error: ValidationError, marked: MarkedYaml) -> Iterator[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    rule: Any = error.validator_value
    value: Any = error.instance
    at = ".".join(str(part) for part in path)
    where = f" under `{at}`" if at else ""
    if error.validator == "additionalProperties":
        allowed = sorted(_schema_of(error)["properties"])
        for key in value:
            if key in allowed:
                continue
            close = nearest(key, [k for k in allowed if k not in value] or allowed)
            yield Problem(
                marked.line((*path, key)),
                f"unknown key `{key}`{where}",
                "keys allowed here: " + ", ".join(allowed),
                f"did you mean `{close}`?" if close else f"remove `{key}`",
            )
    elif error.validator == "required":
        strangers = [key for key in value if key not in _schema_of(error).get("properties", {})]
        for key in rule:
            # a misspelt key is one mistake, not two
            if key not in value and nearest(key, strangers) is None:
                yield Problem(
                    marked.line(path), f"key `{key}` is missing{where}", "it has no default", f"add `{key}:`"
                )
    elif error.validator == "enum":
        allowed_text = [str(v) for v in rule]
        close = nearest(str(value), allowed_text)
        yield Problem(
            marked.line(path),
            f"`{at}` cannot be {value!r}",
            "allowed: " + ", ".join(allowed_text),
            f"did you mean `{close}`?" if close else f"write one of them at `{at}`",
        )
    elif error.validator == "type":
        names = rule if isinstance(rule, list) else [rule]
        yield Problem(
            marked.line(path),
            f"`{at}` must be {' or '.join(_article(n) for n in names)}, not {value!r}",
            _description(error),
            f"correct the value of `{at}`",
        )
    else:
        yield Problem(
            marked.line(path),
            f"`{at}`: {_limit(error)}",
            _description(error),
            f"correct the value of `{at}`",
        )


def _limit(error: ValidationError) -> str:
    value, bound = error.instance, error.validator_value
    texts = {
        "minimum": f"{value} is below the least value {bound}",
        "exclusiveMinimum": f"{value} must be greater than {bound}",
        "maximum": f"{value} is above the greatest value {bound}",
        "minItems": f"needs at least {bound} item(s)",
        "uniqueItems": "holds the same item twice",
        "minLength": "must not be empty",
        "pattern": f"{value!r} may hold lower-case letters, digits and dashes only",
    }
    return texts.get(str(error.validator), error.message)


def _schema_of(error: ValidationError) -> dict[str, Any]:
    return error.schema if isinstance(error.schema, dict) else {}


def _description(error: ValidationError) -> str:
    return str(_schema_of(error).get("description") or "see lab/src/pqlab/scenario/scenario.schema.json")


def _article(name: str) -> str:
    words = {"integer": "a whole number", "number": "a number", "object": "a mapping", "array": "a list",
             "string": "text", "boolean": "true or false", "null": "null"}  # fmt: skip
    return words.get(name, name)
