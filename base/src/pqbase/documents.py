"""What is read from a JSON object whose shape nobody has promised yet: each value with the type it must have.

A name that is missing is a KeyError; a default stands for what is missing, null, zero or empty. A value of
another type is a TypeError that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Never

Json = dict[str, object]
"""One JSON object: it is passed on whole, or read by the functions below."""


def part_of(document: Mapping[str, object], name: str, default: Json | None = None) -> Json:
    """The object under `name` itself, no copy."""
    value = _value(document, name, default)
    return value if isinstance(value, dict) else _refuse(name, value, "an object")


def part_or_none(document: Mapping[str, object], name: str) -> Json | None:
    """The object under `name` itself; None where it is missing or null."""
    value = document.get(name)
    return value if value is None or isinstance(value, dict) else _refuse(name, value, "an object")


def parts_of(document: Mapping[str, object], name: str) -> dict[str, Json]:
    """The object of objects under `name` itself, no copy."""
    value = _value(document, name, None)
    if not isinstance(value, dict):
        _refuse(name, value, "an object of objects")
    for inside, part in value.items():
        if not isinstance(part, dict):
            _refuse(str(inside), part, "an object")
    return value


def rows_of(document: Mapping[str, object], name: str, default: list[Json] | None = None) -> list[Json]:
    """The list of objects under `name` itself, no copy."""
    value = _value(document, name, default)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        _refuse(name, value, "a list of objects")
    return value


def text_of(document: Mapping[str, object], name: str) -> str:
    """The text under `name`: neither null nor a number is made one."""
    value = document[name]
    return value if isinstance(value, str) else _refuse(name, value, "a text")


def text_or_none(document: Mapping[str, object], name: str) -> str | None:
    """The text under `name`; None where it is missing or null."""
    value = document.get(name)
    return value if value is None or isinstance(value, str) else _refuse(name, value, "a text")


def texts_of(document: Mapping[str, object], name: str, default: list[str] | None = None) -> list[str]:
    """The list of texts under `name`."""
    value = _value(document, name, default)
    if not isinstance(value, list | tuple):
        _refuse(name, value, "a list of texts")
    return [str(text) for text in value]


def whole_of(document: Mapping[str, object], name: str, default: int | None = None) -> int:
    """The number under `name`, its fraction cut off; also one written as text (else a ValueError)."""
    value = _value(document, name, default)
    return int(value) if isinstance(value, int | float | str) else _refuse(name, value, "a number")


def exact_of(document: Mapping[str, object], name: str) -> int:
    """The whole number under `name` as it is: neither a fraction nor a text is taken for one."""
    value = document[name]
    return value if isinstance(value, int) else _refuse(name, value, "a whole number")


def exact_or_none(document: Mapping[str, object], name: str) -> int | None:
    """The whole number under `name` as it is; None where it is missing or null."""
    value = document.get(name)
    return value if value is None or isinstance(value, int) else _refuse(name, value, "a whole number")


def number_of(document: Mapping[str, object], name: str, default: float | None = None) -> float:
    """The number under `name`; also one written as text (else a ValueError)."""
    value = _value(document, name, default)
    return float(value) if isinstance(value, int | float | str) else _refuse(name, value, "a number")


def numbers_of(document: Mapping[str, object], name: str) -> list[float]:
    """The list of numbers under `name` itself, no copy."""
    value = _value(document, name, None)
    if not isinstance(value, list) or not all(isinstance(one, int | float) for one in value):
        _refuse(name, value, "a list of numbers")
    return value


def number_or_none(document: Mapping[str, object], name: str) -> float | None:
    """The number under `name` as it is, whole or not; None where it is missing or null."""
    value = document.get(name)
    return value if value is None or isinstance(value, int | float) else _refuse(name, value, "a number")


def counts_of(
    document: Mapping[str, object], name: str, default: dict[str, int] | None = None
) -> dict[str, int]:
    """The object of whole numbers under `name`, as verdicts and how many cells have each."""
    value = _value(document, name, default)
    if not isinstance(value, dict):
        _refuse(name, value, "an object")
    return {str(key): whole_of(value, key) for key in value}


def _value(document: Mapping[str, object], name: str, default: object) -> object:
    return document[name] if default is None else document.get(name) or default


def _refuse(name: str, value: object, wanted: str) -> Never:
    raise TypeError(f"`{name}` is {type(value).__name__}, not {wanted}")
