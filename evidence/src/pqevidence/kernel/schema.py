"""The part of JSON Schema (2020-12) that this project's schemas use, so that checks need no library for it.

A keyword that is not known here is an error of ours, never passed over. A test holds this against the
reference implementation on damaged documents.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sized
from importlib import resources
from typing import TypeGuard

from pqbase.documents import Json

Path = tuple[str | int, ...]
Found = tuple[Path, str]
Limit = Callable[[object, object], str | None]
#: say something to readers, nothing about a value
_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description", "default"})
#: read together with the keyword they belong to
_COMPANIONS = frozenset({"then", "else"})
_SHOWN_CHARS = 160


def load_schema(package: str, name: str) -> Json:
    """A schema that lies beside that package's modules."""
    schema: Json = json.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))
    return schema


def schema_errors(value: object, schema: Json) -> list[str]:
    """Every violation as `path: message`, in a stable order. ValueError for a keyword that is not known."""
    found = sorted(_check(value, schema, schema, ()), key=lambda error: [str(part) for part in error[0]])
    return [f"{'/'.join(map(str, path)) or 'top'}: {message[:_SHOWN_CHARS]}" for path, message in found]


def _check(value: object, rule: object, root: Json, path: Path) -> Iterator[Found]:
    if rule is True:
        return
    if rule is False:
        yield path, f"{value!r} may not be here"
        return
    here = _mapping(rule)
    for keyword, bound in here.items():
        if keyword in _ANNOTATIONS or keyword in _COMPANIONS:
            continue
        if keyword in _LIMITS:
            if (message := _LIMITS[keyword](value, bound)) is not None:
                yield path, message
        elif keyword in _STRUCTURE:
            yield from _STRUCTURE[keyword](value, here, root, path)
        else:
            raise ValueError(f"keyword {keyword!r} of a schema is not known here")


def _mapping(part: object) -> Json:
    if not isinstance(part, dict):
        raise ValueError(f"{part!r} is no part of a schema that is known here")
    return part


def _list(part: object) -> list[object]:
    if not isinstance(part, list):
        raise ValueError(f"{part!r} of a schema is no list")
    return part


# ---------------------------------------------------------------- one value against one bound


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": _number,
    "integer": lambda value: _number(value) and (not isinstance(value, float) or value.is_integer()),
}


def _same(one: object, other: object) -> bool:
    """JSON's equality: 1 and 1.0 are equal, true and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _type(value: object, bound: object) -> str | None:
    names = [str(name) for name in bound] if isinstance(bound, list) else [str(bound)]
    return None if any(_TYPES[name](value) for name in names) else f"{value!r} is not {' or '.join(names)}"


def _enum(value: object, bound: object) -> str | None:
    return (
        None if any(_same(value, allowed) for allowed in _list(bound)) else f"{value!r} is not one of {bound}"
    )


def _unique(value: object, bound: object) -> str | None:
    if not bound or not isinstance(value, list):
        return None
    return "holds the same item twice" if len(set(map(_frozen, value))) < len(value) else None


def _frozen(value: object) -> object:
    """A hashable stand-in that is equal where `_same` says so: a list of many items is compared in one go."""
    if isinstance(value, list):
        return "list", tuple(map(_frozen, value))
    if isinstance(value, dict):
        return "dict", frozenset((key, _frozen(inner)) for key, inner in value.items())
    return ("bool", value) if isinstance(value, bool) else ("", value)


def _pattern(value: object, bound: object) -> str | None:
    fits = not isinstance(value, str) or re.search(str(bound), value) is not None
    return None if fits else f"{value!r} does not match {bound!r}"


def _bound(bound: object) -> float:
    if not _number(bound):
        raise ValueError(f"{bound!r} of a schema is no number")
    return bound


def _limit(fits: Callable[[float, float], bool], text: str) -> Limit:
    def check(value: object, bound: object) -> str | None:
        return None if not _number(value) or fits(value, _bound(bound)) else f"{value!r} {text} {bound!r}"

    return check


def _size(kind: type[Sized], fits: Callable[[float, float], bool], text: str) -> Limit:
    def check(value: object, bound: object) -> str | None:
        if not isinstance(value, kind) or fits(len(value), _bound(bound)):
            return None
        return f"{value!r} {text} {bound!r}"

    return check


_LIMITS: dict[str, Limit] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, bound: None if _same(value, bound) else f"{value!r} is not {bound!r}",
    "uniqueItems": _unique,
    "minimum": _limit(lambda v, b: not v < b, "is below"),
    "maximum": _limit(lambda v, b: not v > b, "is above"),
    "exclusiveMinimum": _limit(lambda v, b: not v <= b, "is not greater than"),
    "pattern": _pattern,
    "minLength": _size(str, operator.ge, "is shorter than"),
    "maxLength": _size(str, operator.le, "is longer than"),
    "minItems": _size(list, operator.ge, "has fewer items than"),
    "maxItems": _size(list, operator.le, "has more items than"),
    "minProperties": _size(dict, operator.ge, "has fewer keys than"),
}


# ---------------------------------------------------------------- values inside values


def _required(value: object, rule: Json, _root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        yield from ((path, f"{key!r} is missing") for key in _list(rule["required"]) if key not in value)


def _properties(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for key, inner in _mapping(rule["properties"]).items():
            if key in value:
                yield from _check(value[key], inner, root, (*path, key))


def _patterned(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for pattern, inner in _mapping(rule["patternProperties"]).items():
            for key in value:
                if re.search(pattern, key):
                    yield from _check(value[key], inner, root, (*path, key))


def _additional(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if not isinstance(value, dict):
        return
    known, patterns = _mapping(rule.get("properties", {})), _mapping(rule.get("patternProperties", {}))
    for key in value:
        if key in known or any(re.search(pattern, key) for pattern in patterns):
            continue
        if rule["additionalProperties"] is False:
            yield path, f"{key!r} is not known"
        else:
            yield from _check(value[key], rule["additionalProperties"], root, (*path, key))


def _names(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, dict):
        for key in value:
            yield from _check(key, rule["propertyNames"], root, path)


def _items(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _check(item, rule["items"], root, (*path, place))


def _reference(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    target: object = root
    for part in str(rule["$ref"]).removeprefix("#/").split("/"):
        target = _mapping(target)[part]
    yield from _check(value, target, root, path)


def _all(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    for inner in _list(rule["allOf"]):
        yield from _check(value, inner, root, path)


def _fitting(value: object, rules: list[object], root: Json, path: Path) -> int:
    return sum(next(_check(value, inner, root, path), None) is None for inner in rules)


def _any(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if not _fitting(value, _list(rule["anyOf"]), root, path):
        yield path, f"{value!r} fits none of what may be here"


def _one(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    if _fitting(value, _list(rule["oneOf"]), root, path) != 1:
        yield path, f"{value!r} fits none, or more than one, of what may be here"


def _if(value: object, rule: Json, root: Json, path: Path) -> Iterator[Found]:
    holds = next(_check(value, rule["if"], root, path), None) is None
    yield from _check(value, rule.get("then" if holds else "else", True), root, path)


_STRUCTURE: dict[str, Callable[[object, Json, Json, Path], Iterator[Found]]] = {
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
