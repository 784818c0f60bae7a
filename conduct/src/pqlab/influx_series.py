"""One series of an InfluxDB answer: its tags, and its points by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

Scalar = int | float | bool | str


class Series(TypedDict, total=False):
    """One series of an answer; the first of its columns is the time (ns)."""

    name: str
    tags: dict[str, str]
    columns: list[str]
    values: list[list[Scalar | None]]
    partial: bool


def points(series: Series) -> Iterator[tuple[int, dict[str, Scalar | None]]]:
    """Its points: (time_ns, value or null by column)."""
    for row in series["values"]:
        named = dict(zip(series["columns"], row, strict=True))
        yield int(named.pop("time") or 0), named


def tags_of(series: Series) -> tuple[tuple[str, str], ...]:
    """Its tags that have a value, by name."""
    return tuple(sorted((key, value) for key, value in series.get("tags", {}).items() if value != ""))
