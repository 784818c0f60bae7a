"""Rows of spans as a writer leaves them, read as columns: what many rows have in common is parsed once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

Json = dict[str, Any]
Before = TypeVar("Before")
After = TypeVar("After")
#: what stands between what all rows of one end in one handshake share, and what is a row's own
_STEP: Final = ',"step":"'
_START: Final = '"start_ns":'
_END: Final = '"end_ns":'
_OWN: Final = frozenset(("step", "start_ns", "end_ns"))
#: beside numbers, what JSON lets stand there, and what makes one that is not whole
_BESIDE: Final = " \t\r\n.eE"


class Odd(Exception):
    """A row that is not as a writer leaves it."""


def read_plain(
    content: bytes, before: Callable[[Json], Before], after: Callable[[Json], After]
) -> Iterator[tuple[Before, str, int, int, After]]:
    """Of each row what `before` makes of the values before its step, then step, start and end, and what
    `after` makes of the values after these. Both are asked once for all rows that say the same there. Raises
    Odd, as both may, ValueError or RecursionError where a row is not as a writer leaves it: then nothing is
    known of any.

    A row is cut at its first `,"step":"` and at three commas after that. Where what lies before and what
    comes after are JSON objects once they are closed and opened, and the three between are what they should
    be, no other reading of the row is left. No backslash: a quote behind one would end nothing.
    """
    if b"\\" in content or not content.endswith(b"}\n"):
        raise Odd
    lines = content[:-1].decode().split("\n")
    heads, _, rests = zip(*[line.partition(_STEP) for line in lines], strict=True)
    steps, starts, ends, tails = zip(*[rest.split(",", 3) for rest in rests], strict=True)
    head_of = {head: before(_object(head + "}")) for head in set(heads)}
    step_of = {step: _text('"' + step) for step in set(steps)}
    tail_of = {tail: after(_object("{" + tail)) for tail in set(tails)}
    return zip(
        map(head_of.__getitem__, heads),
        map(step_of.__getitem__, steps),
        _numbers(starts, _START),
        _numbers(ends, _END),
        map(tail_of.__getitem__, tails),
        strict=True,
    )


def _object(text: str) -> Json:
    found = json.loads(text)
    # one that is empty would have left a comma by itself
    if not isinstance(found, dict) or not found or not _OWN.isdisjoint(found):
        raise Odd
    return found


def _text(text: str) -> str:
    found = json.loads(text)
    if not isinstance(found, str):
        raise Odd
    return found


def _numbers(column: tuple[str, ...], name: str) -> list[int]:
    """Whole numbers, each behind its name."""
    text = "," + ",".join(column)
    bare = text.replace("," + name, ",")
    if len(text) - len(bare) != len(name) * len(column) or any(map(bare.__contains__, _BESIDE)):
        raise Odd
    found: list[int] = json.loads(f"[{bare[1:]}]")
    if len(found) != len(column) or set(map(type, found)) != {int}:
        raise Odd
    return found
