"""A parsed scenario against the shipped JSON Schema, in a user's words: line, key, nearest valid key."""

from __future__ import annotations

import copy
import difflib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jsonschema import Draft202012Validator, TypeChecker, validators
from jsonschema.exceptions import ValidationError

from pqbase.documents import Json, part_of
from pqevidence.errors import ScenarioError
from pqevidence.scenario.marks import KeyPath, MarkedYaml, Place

OVERLAY_SCHEMA = "pqlab/overlay/v1"
#: problems listed in one error; the rest is counted
_SHOWN_PROBLEMS = 10


def _is_finite_number(_checker: TypeChecker, value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


#: NaN is within every limit, since no comparison with it holds; so it is no number here, nor is an infinity
_Validator = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("number", _is_finite_number),
)


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a scenario: where, what is wrong, what is allowed, what to write instead."""

    place: Place
    message: str
    why: str
    hint: str


@cache
def schema() -> Json:
    """The JSON Schema of scenarios, as shipped beside this module."""
    text = resources.files("pqevidence.scenario").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    loaded: Json = json.loads(text)
    return loaded


@cache
def overlay_schema() -> Json:
    """The JSON Schema of overlays: parts of a scenario, none of them required, and `condition`, which is laid
    over every condition of the scenario."""
    rule = copy.deepcopy(schema())
    parts = part_of(rule, "properties")
    for key in ("extends", "overlays", "ring", "only"):
        del parts[key]
    parts["schema"] = {"description": "Format of this file.", "enum": [OVERLAY_SCHEMA]}
    for key in ("handshake", "traffic", "bulk", "telemetry", "order", "thermal_gate"):
        part_of(parts, key).pop("required", None)
    part = copy.deepcopy(part_of(part_of(parts, "conditions"), "items"))
    for key in ("name", "overlays", "aa_of", "suites", "repetitions"):
        del part_of(part, "properties")[key]
    parts["condition"] = {**part, "required": [], "description": "Laid over every condition."}
    for name in ("rekey", "policy", "attack", "fleet"):
        part_of(part_of(rule, "$defs"), name).pop("required")
    return {**rule, "$id": OVERLAY_SCHEMA, "required": ["schema", "name"]}


def problems(marked: MarkedYaml, rule: Json | None = None) -> list[Problem]:
    """Everything the schema refuses, by file and line."""
    found: list[Problem] = []
    for error in _Validator(rule or schema()).iter_errors(marked.data):
        found.extend(_explain(error, marked))
    return sorted(set(found), key=lambda p: (p.place.file, p.place.line, p.message))


def raise_for(found: list[Problem]) -> None:
    """Raises ScenarioError for the first problem; the others follow in its text."""
    if not found:
        return
    first = found[0]
    where = f"{first.place.file}:{first.place.line}"
    more = [
        f"\n       {p.place.file}:{p.place.line}: {p.message} ({p.hint})" for p in found[1:_SHOWN_PROBLEMS]
    ]
    if len(found) > _SHOWN_PROBLEMS:
        more.append(f"\n       and {len(found) - _SHOWN_PROBLEMS} more")
    advice = first.hint if first.hint.endswith(("?", ".")) else f"{first.hint}."
    hint = f"{advice} Correct line {first.place.line}, then: ./pqlab validate {first.place.file}"
    raise ScenarioError("scenario-invalid", f"{where}: {first.message}" + "".join(more), first.why, hint)


def nearest(word: str, allowed: list[str]) -> str | None:
    """The allowed word a typing slip away from `word`, or None."""
    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return close[0] if close else None


def _explain(error: ValidationError, marked: MarkedYaml) -> Iterator[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    rule, value = _listed(error.validator_value), error.instance
    at = ".".join(str(part) for part in path)
    where = f" under `{at}`" if at else ""
    if error.validator == "additionalProperties":
        allowed, told = sorted(part_of(_schema_of(error), "properties")), _listed(value)
        for key in told:
            if key in allowed:
                continue
            close = nearest(key, [k for k in allowed if k not in told] or allowed)
            yield Problem(
                marked.place((*path, key)),
                f"unknown key `{key}`{where}",
                "keys allowed here: " + ", ".join(allowed),
                f"did you mean `{close}`?" if close else f"remove `{key}`",
            )
    elif error.validator == "required":
        told, known = _listed(value), part_of(_schema_of(error), "properties", {})
        strangers = [key for key in told if key not in known]
        for key in rule:
            # a misspelt key is one mistake, not two
            if key not in told and nearest(key, strangers) is None:
                yield Problem(
                    marked.place(path), f"key `{key}` is missing{where}", "it has no default", f"add `{key}:`"
                )
    elif error.validator == "enum":
        close = nearest(str(value), rule)
        yield Problem(
            marked.place(path),
            f"`{at}` cannot be {value!r}",
            "allowed: " + ", ".join(rule),
            f"did you mean `{close}`?" if close else f"write one of them at `{at}`",
        )
    elif error.validator == "type":
        yield Problem(
            marked.place(path),
            f"`{at}` must be {' or '.join(_article(n) for n in rule)}, not {value!r}",
            _description(error),
            _number_hint(value) or f"correct the value of `{at}`",
        )
    else:
        yield Problem(
            marked.place(path),
            f"`{at}`: {_limit(error)}",
            _description(error),
            f"correct the value of `{at}`",
        )


def _listed(value: object) -> list[str]:
    """The texts of a list, the keys of a mapping, or the one text that stands there alone."""
    return [str(one) for one in value] if isinstance(value, list | dict) else [str(value)]


def _number_hint(value: object) -> str | None:
    """YAML 1.1 takes `1e9` for text: how to write such a number instead."""
    try:
        meant = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    if not math.isfinite(meant):
        return None
    return f"write a plain number: {int(meant) if meant.is_integer() else meant}"


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


def _schema_of(error: ValidationError) -> Json:
    return error.schema if isinstance(error.schema, dict) else {}


def _description(error: ValidationError) -> str:
    return str(
        _schema_of(error).get("description") or "see evidence/src/pqevidence/scenario/scenario.schema.json"
    )


def _article(name: str) -> str:
    words = {
        "integer": "a whole number",
        "number": "a number",
        "object": "a mapping",
        "array": "a list",
        "string": "text",
        "boolean": "true or false",
        "null": "null",
    }
    return words.get(name, name)
