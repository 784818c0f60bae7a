"""Read telemetry back: points of a measurement, values of a field. Pure functions on text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pqtelemetry.errors import ParseError
from pqtelemetry.parse import Point, parse_line, parse_lines

__all__ = ["ParseError", "Point", "parse_line", "parse_lines", "points", "values"]


def points(
    lines: Iterable[str],
    measurement: str,
    *,
    tags: dict[str, str] | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Iterator[Point]:
    """Points of one measurement whose tags include `tags`, with start_ns <= time < end_ns.

    Raises ParseError at the first damaged line of that measurement.
    """
    wanted = set((tags or {}).items())
    prefixes = (measurement + ",", measurement + " ")
    for line in lines:
        if not line.startswith(prefixes):
            continue
        point = parse_line(line)
        if point.measurement != measurement or not wanted <= set(point.tags):
            continue
        if (start_ns is None or point.time_ns >= start_ns) and (end_ns is None or point.time_ns < end_ns):
            yield point


def values(
    lines: Iterable[str],
    measurement: str,
    field: str,
    *,
    tags: dict[str, str] | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> list[tuple[int, int | float]]:
    """(time_ns, value) of a numeric field where it is present; booleans and text are not numbers."""
    out: list[tuple[int, int | float]] = []
    for point in points(lines, measurement, tags=tags, start_ns=start_ns, end_ns=end_ns):
        value = point.fields.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool):
            out.append((point.time_ns, value))
    return out
