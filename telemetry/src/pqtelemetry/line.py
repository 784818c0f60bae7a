"""Line protocol encoder (InfluxDB line protocol, v1 syntax): one point, one line.

In scope: escaping, types, range checks, canonical tag order.
Not in scope: when and where lines are written.

Canonical form: tags sorted by key, integers with the `i` suffix, floats as Python's shortest
round-trip text, booleans `true`/`false`, strings quoted, and always a nanosecond timestamp.
A backslash or a quote in a measurement, a tag or a field name is refused: readers differ in
what they make of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from pqtelemetry.errors import EncodeError

FieldValue = int | float | bool | str
Tags = tuple[tuple[str, str], ...]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_RESERVED = frozenset({"time"})


@dataclass(frozen=True)
class Sample:
    """Fields of one series at one instant; the series is the measurement with its tags."""

    measurement: str
    fields: Mapping[str, FieldValue]
    tags: Tags = field(default=())


def _check_name(kind: str, text: str) -> None:
    if not text:
        raise EncodeError(f"empty {kind}")
    if "\\" in text or '"' in text or not text.isprintable():
        raise EncodeError(f"{kind} {text!r} holds a backslash, a quote or a control character")


def _escape(text: str, specials: str) -> str:
    for special in specials:
        text = text.replace(special, "\\" + special)
    return text


@lru_cache(maxsize=4096)
def series_key(measurement: str, tags: Tags = ()) -> str:
    """`measurement,tag=value,…` escaped, tags sorted: the identity of a series.

    Raises EncodeError for empty, repeated or unprintable names.
    """
    _check_name("measurement", measurement)
    if measurement.startswith("#"):
        raise EncodeError(f"measurement {measurement!r} would read as a comment")
    parts = [_escape(measurement, ", ")]
    seen: set[str] = set()
    for key, value in sorted(tags):
        _check_name("tag key", key)
        _check_name(f"value of tag {key!r}", value)
        if key in seen or key in _RESERVED:
            raise EncodeError(f"tag key {key!r} is repeated or reserved")
        seen.add(key)
        parts.append(f"{_escape(key, ',= ')}={_escape(value, ',= ')}")
    return ",".join(parts)


@lru_cache(maxsize=4096)
def _field_key(key: str) -> str:
    _check_name("field key", key)
    if key in _RESERVED:
        raise EncodeError(f"field key {key!r} is reserved")
    return _escape(key, ",= ")


def _field_value(key: str, value: FieldValue) -> str:
    # bool first: it is an int in Python.
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise EncodeError(f"field {key!r}: {value} does not fit 64 bits")
        return f"{value}i"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EncodeError(f"field {key!r}: {value!r} is not a number that can be stored")
        return repr(value)
    if isinstance(value, str):
        if not value.isprintable():
            raise EncodeError(f"field {key!r}: text holds a control character")
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise EncodeError(f"field {key!r}: {type(value).__name__} cannot be stored")


def encode(sample: Sample, time_ns: int) -> str:
    """One line without its newline; `time_ns` is CLOCK_REALTIME in nanoseconds.

    Raises EncodeError; a sample without fields is an error, because an absent value must be a gap.
    """
    if not sample.fields:
        raise EncodeError(f"{sample.measurement}: no field to write")
    if not INT_MIN < time_ns <= INT_MAX:
        raise EncodeError(f"timestamp {time_ns} does not fit 64 bits")
    body = ",".join([f"{_field_key(key)}={_field_value(key, value)}" for key, value in sample.fields.items()])
    return f"{series_key(sample.measurement, sample.tags)} {body} {time_ns}"


def tag_text(text: str) -> str:
    """Make a name found on the host (hwmon label, interface) safe as a tag value; never empty."""
    cleaned = "".join(c if c.isalnum() or c in "._:-" else "_" for c in text.strip())
    return cleaned or "unnamed"


def plain_text(text: str) -> str:
    """Make free text (an error message) safe as a string field: one line, printable."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
