"""Read telemetry back: slice lines by time, pick a field, aggregate it. Pure functions on text.

Missing stays missing: every aggregate of nothing is `None`, never zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pqbase.stats import tail
from pqtelemetry.errors import ParseError
from pqtelemetry.parse import Point, parse_line, parse_lines

__all__ = [
    "Aggregate",
    "Increase",
    "ParseError",
    "Point",
    "aggregate",
    "increase",
    "line_time_ns",
    "parse_line",
    "parse_lines",
    "points",
    "slice_lines",
    "summarise",
    "values",
]


@dataclass(frozen=True)
class Aggregate:
    """Summary of one field over a span: `n` values; the 95th percentile interpolates linearly and is
    None where too few values carry it."""

    n: int
    mean: float
    median: float
    p95: float | None
    min: float
    max: float


@dataclass(frozen=True)
class Increase:
    """How far a cumulative counter moved between its first and last point, and the time between them."""

    amount: int | float
    span_ns: int
    n: int

    @property
    def per_s(self) -> float:
        """Mean rate in units per second."""
        return self.amount / (self.span_ns / 1e9)


def line_time_ns(line: str) -> int:
    """Timestamp of a line without parsing the rest; raises ParseError when there is none."""
    stamp = line.rstrip("\n").rpartition(" ")[2]
    if not stamp.removeprefix("-").isdecimal():
        raise ParseError("no timestamp at the end of the line", column=max(0, len(line) - len(stamp)))
    return int(stamp)


def slice_lines(lines: Iterable[str], start_ns: int, end_ns: int) -> list[str]:
    """Lines with start_ns <= time < end_ns, in file order, without newlines; empty lines are skipped."""
    stripped = (line.rstrip("\n") for line in lines)
    return [line for line in stripped if line and start_ns <= line_time_ns(line) < end_ns]


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


def summarise(numbers: Iterable[int | float]) -> Aggregate | None:
    """Aggregate of plain numbers; None when there are none."""
    ordered = sorted(float(number) for number in numbers)
    if not ordered:
        return None
    return Aggregate(
        n=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        median=statistics.median(ordered),
        p95=tail(ordered, 0.95),
        min=ordered[0],
        max=ordered[-1],
    )


def aggregate(
    lines: Iterable[str],
    measurement: str,
    field: str,
    *,
    tags: dict[str, str] | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Aggregate | None:
    """Aggregate of one field over [start_ns, end_ns); None where no point carries it."""
    found = values(lines, measurement, field, tags=tags, start_ns=start_ns, end_ns=end_ns)
    return summarise(value for _, value in found)


def increase(
    lines: Iterable[str],
    measurement: str,
    field: str,
    *,
    tags: dict[str, str] | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Increase | None:
    """Growth of a cumulative counter over the span; None with fewer than two points or after a reset."""
    found = values(lines, measurement, field, tags=tags, start_ns=start_ns, end_ns=end_ns)
    if len(found) < 2:
        return None
    series = [value for _, value in found]
    span_ns = found[-1][0] - found[0][0]
    if span_ns <= 0 or any(after < before for before, after in pairwise(series)):
        return None
    return Increase(amount=series[-1] - series[0], span_ns=span_ns, n=len(found))
