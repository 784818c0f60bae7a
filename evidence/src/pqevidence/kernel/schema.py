"""The part of JSON Schema (2020-12) that this project's schemas use, so that checks need no library for it.

A keyword that is not known here is an error of ours, never passed over. A test holds this against the
reference implementation on damaged documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

Json = dict[str, Any]
Path = tuple[str | int, ...]
Found = tuple[Path, str]
#: say something to readers, nothing about a value
_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description", "default"})
#: read together with the keyword they belong to
_COMPANIONS = frozenset({"then", "else"})
_SHOWN_CHARS = 160


def load_schema(package: str, name: str) -> Json:
    """A schema that lies beside that package's modules."""
    schema: Json = json.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))
    return schema


def schema_errors(value: Any, schema: Json) -> list[str]:
    """Every violation as `path: message`, in a stable order. ValueError for a keyword that is not known."""
    found = sorted(_check(value, schema, schema, ()), key=lambda error: [str(part) for part in error[0]])
    return [f"{'/'.join(map(str, path)) or 'top'}: {message[:_SHOWN_CHARS]}" for path, message in found]


def _check(value: Any, rule: Any, root: Json, path: Path) -> Iterator[Found]:
    if rule is True:
        return
    if rule is False:
        yield path, f"{value!r} may not be here"
        return
    for keyword, bound in rule.items():
        if keyword in _ANNOTATIONS or keyword in _COMPANIONS:
            continue
        if keyword in _LIMITS:
            if (message := _LIMITS[keyword](value, bound)) is not None:
                yield path, message
        elif keyword in _STRUCTURE:
            yield from _STRUCTURE[keyword](value, rule, root, path)
        else:
            raise ValueError(f"keyword {keyword!r} of a schema is not known here")


# ---------------------------------------------------------------- one value against one bound


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": _number,
    "integer": lambda value: _number(value) and (isinstance(value, int) or value.is_integer()),
}


def _same(one: Any, other: Any) -> bool:
    """JSON's equality: 1 and 1.0 are equal, true and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _type(value: Any, bound: Any) -> str | None:
    names = bound if isinstance(bound, list) else [bound]
    return None if any(_TYPES[name](value) for name in names) else f"{value!r} is not {' or '.join(names)}"


def _enum(value: Any, bound: Any) -> str | None:
    return None if any(_same(value, allowed) for allowed in bound) else f"{value!r} is not one of {bound}"


def _unique(value: Any, bound: Any) -> str | None:
    if not bound or not isinstance(value, list):
        return None
    return "holds the same item twice" if len(set(map(_frozen, value))) < len(value) else None


def _frozen(value: Any) -> Any:
    """A hashable stand-in that is equal where `_same` says so: a list of many items is compared in one go."""
    if isinstance(value, list):
        return "list", tuple(map(_frozen, value))
    if isinstance(value, dict):
        return "dict", frozenset((key, _frozen(inner)) for key, inner in value.items())
    return ("bool", value) if isinstance(value, bool) else ("", value)


def _limit(
    kind: Callable[[Any], bool], fits: Callable[[Any, Any], bool], text: str
) -> Callable[..., str | None]:
    def check(value: Any, bound: Any) -> str | None:
        return None if not kind(value) or fits(value, bound) else f"{value!r} {text} {bound!r}"

    return check


_LIMITS: dict[str, Callable[[Any, Any], str | None]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, bound: None if _same(value, bound) else f"{value!r} is not {bound!r}",
    "uniqueItems": _unique,
    "minimum": _limit(_number, lambda v, b: not v < b, "is below"),
    "maximum": _limit(_number, lambda v, b: not v > b, "is above"),
    "exclusiveMinimum": _limit(_number, lambda v, b: not v <= b, "is not greater than"),
    "pattern": _limit(_TYPES["string"], lambda v, b: re.search(b, v) is not None, "does not match"),
    "minLength": _limit(_TYPES["string"], lambda v, b: len(v) >= b, "is shorter than"),
    "maxLength": _limit(_TYPES["string"], lambda v, b: len(v) <= b, "is longer than"),
    "minItems": _limit(_TYPES["array"], lambda v, b: len(v) >= b, "has fewer items than"),
    "maxItems": _limit(_TYPES["array"], lambda v, b: len(v) <= b, "has more items than"),
    "minProperties": _limit(_TYPES["object"], lambda v, b: len(v) >= b, "has fewer keys than"),
}


# ---------------------------------------------------------------- values inside values


def _required(value: Any, rule: Json, _root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        yield from ((path, f"{key!r} is missing") for key in rule["required"] if key not in value)


def _properties(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for key, inner in rule["properties"].items():
            if key in value:
                yield from _check(value[key], inner, root, (*path, key))


def _patterned(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for pattern, inner in rule["patternProperties"].items():
            for key in value:
                if re.search(pattern, key):
                    yield from _check(value[key], inner, root, (*path, key))


def _additional(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if not isinstance(value, dict):
        return
    known, patterns = rule.get("properties", {}), rule.get("patternProperties", {})
    for key in value:
        if key in known or any(re.search(pattern, key) for pattern in patterns):
            continue
        if rule["additionalProperties"] is False:
            yield path, f"{key!r} is not known"
        else:
            yield from _check(value[key], rule["additionalProperties"], root, (*path, key))


def _names(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for key in value:
            yield from _check(key, rule["propertyNames"], root, path)


def _items(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _check(item, rule["items"], root, (*path, place))


def _reference(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    target: Any = root
    for part in str(rule["$ref"]).removeprefix("#/").split("/"):
        target = target[part]
    yield from _check(value, target, root, path)


def _all(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    for inner in rule["allOf"]:
        yield from _check(value, inner, root, path)


def _fitting(value: Any, rules: list[Any], root: Json, path: Path) -> int:
    return sum(next(_check(value, inner, root, path), None) is None for inner in rules)


def _any(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if not _fitting(value, rule["anyOf"], root, path):
        yield path, f"{value!r} fits none of what may be here"


def _one(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if _fitting(value, rule["oneOf"], root, path) != 1:
        yield path, f"{value!r} fits none, or more than one, of what may be here"


def _if(value: Any, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    holds = next(_check(value, rule["if"], root, path), None) is None
    yield from _check(value, rule.get("then" if holds else "else", True), root, path)


_STRUCTURE: dict[str, Callable[[Any, Json, Json, Path], Iterator[Found]]] = {
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterned,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "$ref": _reference,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _one,
    "if": _if,
}
KEYWORDS = frozenset({*_LIMITS, *_STRUCTURE, *_ANNOTATIONS, *_COMPANIONS})
