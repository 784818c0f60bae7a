"""Summaries and integrity checks, from the raw files alone: nothing is remembered from the run.

The checks are those of `primitives-2026-01` §10, each with what was observed and what was expected.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from pqbase.stats import quantile7, tail
from pqtunnel.bench.rawfiles import BenchError, Head, Iteration, read


class Row(TypedDict):
    """One summary row; its names are the columns of the CSV."""

    category: str
    algorithm: str
    operation: str
    name: str
    n: int
    failed: int
    mean_ms: float | None
    median_ms: float | None
    min_ms: float | None
    max_ms: float | None
    stdev_ms: float | None
    p95_ms: float | None
    timer_overhead_ns: int
    published: bool


COLUMNS: Final = tuple(Row.__annotations__)


@dataclass(frozen=True, slots=True)
class Check:
    """One integrity check."""

    name: str
    passed: bool
    observed: str
    expected: str


def raw_files(root: Path) -> list[Path]:
    """Every raw file of a result tree, in order of name."""
    return sorted((root / "raw").glob("*/*.json"))


def row_of(head: Head, iterations: list[Iteration]) -> Row:
    """One summary row; times are of the performance counter, warm-ups left out, nothing subtracted.

    Without a successful iteration the times are None, and P95 below twenty of them.
    """
    kept = [one for one in iterations if not one.warmup]
    times_ms = sorted(one.perf_time_ns / 1e6 for one in kept if one.success)
    n = len(times_ms)
    row: Row = {
        "category": head["category"],
        "algorithm": head["algorithm"],
        "operation": head["operation"],
        "name": head["name"],
        "n": n,
        "failed": len(kept) - n,
        "mean_ms": None,
        "median_ms": None,
        "min_ms": None,
        "max_ms": None,
        "stdev_ms": None,
        "p95_ms": None,
        "timer_overhead_ns": head["timer_overhead_ns"],
        "published": head["published"],
    }
    if n == 0:
        return row
    mean = math.fsum(times_ms) / n
    spread = math.sqrt(math.fsum((t - mean) ** 2 for t in times_ms) / (n - 1)) if n > 1 else None
    return {
        **row,
        "mean_ms": mean,
        "median_ms": quantile7(times_ms, 0.5),
        "min_ms": times_ms[0],
        "max_ms": times_ms[-1],
        "stdev_ms": spread,
        "p95_ms": tail(times_ms, 0.95),
    }


def summarise(root: Path) -> list[Row]:
    """A row for each raw file. Raises BenchError for a file that cannot be read."""
    return [row_of(*read(path)) for path in raw_files(root)]


def as_csv(rows: list[Row]) -> str:
    """The rows as CSV; an unknown value is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {**row, **{k: f"{v:.6f}" for k, v in row.items() if isinstance(v, float)}} for row in rows
    )
    return text.getvalue()


def integrity(root: Path, expected_names: set[str], count: int) -> list[Check]:
    """All checks over a result tree that should hold `expected_names` (paths under raw/) × `count`."""
    files = {path.relative_to(root / "raw").as_posix(): path for path in raw_files(root)}
    documents: dict[str, tuple[Head, list[Iteration]]] = {}
    broken: list[str] = []
    for name, path in files.items():
        try:
            documents[name] = read(path)
        except BenchError:
            broken.append(name)
    checks = [_check("every file is whole JSON", broken, "no damaged file")]
    missing, extra = sorted(expected_names - set(files)), sorted(set(files) - expected_names)
    checks.append(_check(f"{len(expected_names)} raw files", missing + extra, "none missing, none beside"))
    wrong = [n for n, (_, rows) in documents.items() if sum(not one.warmup for one in rows) != count]
    checks.append(_check(f"{count} iterations each", wrong, "no other number"))
    failed = [n for n, (_, rows) in documents.items() if not all(one.success for one in rows)]
    checks.append(_check("every iteration succeeded", failed, "no failure"))
    for field in ("host", "build", "mode"):
        values = {str(head.get(field)) for head, _ in documents.values()}
        told = [] if len(values) <= 1 else sorted(values)
        checks.append(_check(f"all files name the same {field}", told, "one value"))
    unordered = [n for n, (_, rows) in documents.items() if not _rising(rows)]
    checks.append(_check("time stamps distinct and rising", unordered, "no repetition, no step back"))
    apart = [n for n, (_, rows) in documents.items() if not _clocks_agree(rows)]
    checks.append(_check("both clocks tell the same time", apart, "medians within 20 % or 5 µs"))
    return checks


def _check(name: str, bad: list[str], expected: str) -> Check:
    shown = ", ".join(bad[:3]) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")
    return Check(name, not bad, shown or "as expected", expected)


def _rising(rows: list[Iteration]) -> bool:
    return all(a.started_ns < b.started_ns for a, b in itertools.pairwise(rows))


def _clocks_agree(rows: list[Iteration]) -> bool:
    if not rows:
        return False
    perf, wall = (
        statistics.median(times)
        for times in ([one.perf_time_ns for one in rows], [one.wall_time_ns for one in rows])
    )
    return abs(perf - wall) <= max(0.2 * perf, 5_000.0)
