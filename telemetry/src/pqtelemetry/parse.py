"""Strict parser for the lines that `line.encode` writes: anything else is a ParseError, never a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import repeat
from typing import Final, NamedTuple

from pqtelemetry.errors import EncodeError, ParseError
from pqtelemetry.line import INT_MAX, INT_MIN, FieldValue, Tags, series_key

_INT = re.compile(r"-?[0-9]{1,19}i")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_TIME = re.compile(r"-?[0-9]{1,19}")


class Point(NamedTuple):
    """One parsed line: tags sorted by key, fields in file order, `time_ns` CLOCK_REALTIME."""

    measurement: str
    tags: Tags
    fields: dict[str, FieldValue]
    time_ns: int

    @property
    def series(self) -> str:
        """`measurement,tag=value,…` in canonical order."""
        return series_key(self.measurement, self.tags)


def _split(text: str, separator: str, start: int) -> list[tuple[str, int]]:
    """Split at unescaped separators outside quotes; each part with its column."""
    parts: list[tuple[str, int]] = []
    begin = index = 0
    quoted = False
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 2
            continue
        if char == '"':
            quoted = not quoted
        elif char == separator and not quoted:
            parts.append((text[begin:index], start + begin))
            begin = index + 1
        index += 1
    if quoted:
        raise ParseError("a quoted string does not end", column=start + begin)
    parts.append((text[begin:], start + begin))
    return parts


def _unescape(text: str, specials: str, column: int) -> str:
    if not text:
        raise ParseError("an empty name", column=column)
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            if index + 1 >= len(text) or text[index + 1] not in specials:
                raise ParseError("a backslash that escapes nothing", column=column + index)
            index += 1
            char = text[index]
        elif char in specials:
            raise ParseError(f"{char!r} without its backslash", column=column + index)
        if not char.isprintable() or char == '"':
            raise ParseError("a quote or a control character in a name", column=column + index)
        out.append(char)
        index += 1
    return "".join(out)


def _string(text: str, column: int) -> str:
    out: list[str] = []
    index = 1
    while index < len(text) - 1:
        char = text[index]
        if char == "\\":
            index += 1
            char = text[index]
            if char not in '"\\' or index == len(text) - 1:
                raise ParseError("a backslash that escapes nothing", column=column + index)
        elif char == '"':
            raise ParseError("text after the end of a string", column=column + index)
        if not char.isprintable():
            raise ParseError("a control character", column=column + index)
        out.append(char)
        index += 1
    return "".join(out)


def _value(text: str, column: int) -> FieldValue:
    if _INT.fullmatch(text):
        number = int(text[:-1])
        if not INT_MIN <= number <= INT_MAX:
            raise ParseError("an integer beyond 64 bits", column=column)
        return number
    if _FLOAT.fullmatch(text):
        real = float(text)
        if not math.isfinite(real):
            raise ParseError("a number beyond the range of a float", column=column)
        return real
    if text == "true":
        return True
    if text == "false":
        return False
    if len(text) >= 2 and text[0] == '"' and text[-1] == '"':
        return _string(text, column)
    raise ParseError(f"{text!r} is no field value", column=column)


def _head(text: str) -> tuple[str, Tags]:
    name, *pairs = _split(text, ",", 0)
    tags: list[tuple[str, str]] = []
    for pair, column in pairs:
        halves = _split(pair, "=", column)
        if len(halves) != 2:
            raise ParseError("a tag is key=value", column=column)
        (key, key_column), (value, value_column) = halves
        tags.append((_unescape(key, ",= ", key_column), _unescape(value, ",= ", value_column)))
    if len({key for key, _ in tags}) != len(tags):
        raise ParseError("a tag key occurs twice")
    measurement, names = _unescape(name[0], ", ", 0), tuple(sorted(tags))
    try:
        series_key(measurement, names)
    except EncodeError as error:
        raise ParseError(str(error)) from error
    return measurement, names


def _fields(text: str, start: int) -> dict[str, FieldValue]:
    fields: dict[str, FieldValue] = {}
    for pair, column in _split(text, ",", start):
        halves = _split(pair, "=", column)
        if len(halves) != 2:
            raise ParseError("a field is key=value", column=column)
        (key_text, key_column), (value_text, value_column) = halves
        key = _unescape(key_text, ",= ", key_column)
        if key in fields or key == "time":
            raise ParseError(f"field {key!r} is reserved, or occurs twice", column=key_column)
        fields[key] = _value(value_text, value_column)
    return fields


def _time(text: str, column: int) -> int:
    if not _TIME.fullmatch(text):
        raise ParseError(f"{text!r} is no nanosecond timestamp", column=column)
    time_ns = int(text)
    if not INT_MIN < time_ns <= INT_MAX:
        raise ParseError("a timestamp beyond 64 bits", column=column)
    return time_ns


def parse_line(line: str) -> Point:
    """Parse one line (a trailing newline is allowed); raises ParseError for anything not canonical.

    A line without a timestamp is refused: a reader that invents one would move the sample in time.
    """
    text = line.removesuffix("\n")
    return _parse_escaped(text) if "\\" in text else _parse_simple(text)


def parse_lines(lines: Iterable[str]) -> list[Point]:
    """As `parse_line` has each of them, without newlines; those of one known layout are read in one go."""
    every = list(lines)
    places: dict[str, list[int]] = {}
    for place, line in enumerate(every):
        places.setdefault(line.partition(" ")[0], []).append(place)
    found: dict[int, Point] = {}
    for head, mine in places.items():
        if (layout := _LAYOUTS.get(head)) is not None:
            read = _read_at_once(head, layout, [every[place] for place in mine])
            found.update(zip(mine, read, strict=False))
    # what is left is told apart from what is wrong in the order of the lines
    return [found[place] if place in found else parse_line(line) for place, line in enumerate(every)]


def _parse_escaped(text: str) -> Point:
    """The whole grammar, character by character."""
    sections = _split(text, " ", 0)
    if len(sections) != 3:
        raise ParseError(f"{len(sections)} sections instead of name, fields and time")
    (head, _), (body, body_column), (stamp, stamp_column) = sections
    measurement, tags = _head(head)
    return Point(measurement, tags, _fields(body, body_column), _time(stamp, stamp_column))


# A field where nothing is escaped: a bare value, or a string without quotes and backslashes inside.
_PLAIN_FIELD = re.compile(r'([^,= "]+)=("[^"]*"|[^,= "]+)(?:,(?!$)|$)')


def _parse_simple(text: str) -> Point:
    """The same grammar where nothing is escaped: nearly all lines, and several times as fast."""
    head, _, rest = text.partition(" ")
    if (layout := _LAYOUTS.get(head)) is not None:
        found = layout.pattern.fullmatch(text, len(head))
        if found is not None:
            *values, stamp = found.groups()
            known: dict[str, FieldValue] = {
                key: kind(value) for key, kind, value in zip(layout.keys, layout.kinds, values, strict=True)
            }
            return Point(*_head_cached(head), known, int(stamp))
    return _learned(head, _parse_fields(text, head, rest))


class _Layout(NamedTuple):
    """How lines of one head are written: one that matches is good, and its groups are values and time.
    `each`: of many lines, each without its head."""

    pattern: re.Pattern[str]
    each: re.Pattern[str]
    keys: tuple[str, ...]
    kinds: tuple[Callable[[str], int | float], ...]


#: the layouts that came first; whoever sends lines of ever new ones makes no more of them
_LAYOUTS: Final[dict[str, _Layout]] = {}
_MOST_LAYOUTS: Final = 256
#: what needs no look at its bounds: at most 18 digits, or 19 that begin low
_DIGITS: Final = "([1-8]?[0-9]{1,18})"
_WRITTEN: Final[dict[type, str]] = {int: f"{_DIGITS}i", float: r"(-?[0-9]{1,17}\.[0-9]{1,17})"}


def _read_at_once(head: str, layout: _Layout, lines: list[str]) -> list[Point]:
    """Points of lines that all begin with this head; none of any where one is written otherwise."""
    text = "\n".join([line[len(head) :] for line in lines])
    rows = layout.each.findall(text)
    if len(rows) != len(lines) or text.count("\n") != len(lines) - 1:
        return []
    *columns, stamps = zip(*rows, strict=True)
    known = [map(kind, column) for kind, column in zip(layout.kinds, columns, strict=True)]
    measurement, tags = _head_cached(head)
    fields = [dict(zip(layout.keys, row, strict=True)) for row in zip(*known, strict=True)]
    return list(map(Point._make, zip(repeat(measurement), repeat(tags), fields, map(int, stamps))))


def _learned(head: str, point: Point) -> Point:
    """The same point; the next line of its layout is read at once."""
    kinds = tuple(map(type, point.fields.values()))
    if head not in _LAYOUTS and len(_LAYOUTS) < _MOST_LAYOUTS and _WRITTEN.keys() >= set(kinds):
        _LAYOUTS[head] = _layout(tuple(point.fields), kinds)
    return point


@cache
def _layout(keys: tuple[str, ...], kinds: tuple[type, ...]) -> _Layout:
    fields = (f"{re.escape(key)}={_WRITTEN[kind]}" for key, kind in zip(keys, kinds, strict=True))
    rest = f" {','.join(fields)} {_DIGITS}"
    return _Layout(re.compile(rest), re.compile(f"^{rest}$", re.MULTILINE), keys, kinds)


def _parse_fields(text: str, head: str, rest: str) -> Point:
    body, space, stamp = rest.rpartition(" ")
    if not space:
        raise ParseError("less than name, fields and time")
    measurement, tags = _head_cached(head)
    column = len(head) + 1
    fields: dict[str, FieldValue] = {}
    if '"' in body:
        end = 0
        while end < len(body):
            found = _PLAIN_FIELD.match(body, end)
            if found is None:
                raise ParseError("no field key=value", column=column + end)
            _add(fields, found[1], found[2], column + end)
            end = found.end()
    else:
        for pair in body.split(","):
            key, _, value = pair.partition("=")
            _add(fields, key, value, column)
    if not fields:
        raise ParseError("no field", column=column)
    return Point(measurement, tags, fields, _time(stamp, len(text) - len(stamp)))


def _add(fields: dict[str, FieldValue], key: str, value: str, column: int) -> None:
    if key in fields:
        raise ParseError(f"field {key!r} occurs twice", column=column)
    _check_key(key)
    digits = value[:-1]
    if value[-1:] == "i" and digits.isdecimal() and digits.isascii() and len(digits) < 19:
        fields[key] = int(digits)
    else:
        fields[key] = _value(value, column)


@lru_cache(maxsize=4096)
def _check_key(key: str) -> None:
    """Refuse a field key that the encoder would have escaped or refused (errors are not cached)."""
    if _unescape(key, ",= ", 0) == "time":
        raise ParseError("field 'time' is reserved")


@lru_cache(maxsize=4096)
def _head_cached(head: str) -> tuple[str, Tags]:
    return _head(head)
