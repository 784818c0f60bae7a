"""Raw files of the benchmark: written whole or not at all, read back strictly.

One JSON object a benchmark: what, where, which build, and every iteration, warm-ups included and marked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from pqbase.documents import Json
from pqtunnel.errors import TunnelError

SCHEMA: Final = "pqtunnel/bench-raw/v1"


class BenchError(TunnelError):
    """A benchmark that cannot go on, or a raw file that cannot be used."""

    code = "bench"
    hint = "Move the damaged file away and run the same command again: only what is missing is done."


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration. `started_ns`: CLOCK_REALTIME at its start; perf_time_ns by the monotonic performance
    counter, wall_time_ns by CLOCK_REALTIME, both around the same work."""

    index: int
    warmup: bool
    started_ns: int
    perf_time_ns: int
    wall_time_ns: int
    success: bool


_SUMMARISED: Final = ("category", "algorithm", "operation", "name", "published", "timer_overhead_ns")


class Head(TypedDict):
    """What a raw file says before its iterations. timer_overhead_ns: of two readings of the clock."""

    category: str
    algorithm: str
    operation: str
    name: str
    published: bool
    sizes_bytes: dict[str, int]
    mode: str
    host: str
    build: str
    timer_overhead_ns: int
    pinned_cpu: NotRequired[int | None]


def write_whole(path: Path, document: Mapping[str, object]) -> None:
    """Replace `path` by the document, never leaving half of it. Raises BenchError (disk full, mode)."""
    temporary = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BenchError(
            f"{path.name} cannot be written: {error.strerror}", hint="free some space, or give another --out"
        ) from error


def document_of(head: Head, iterations: list[Iteration]) -> Json:
    """A raw file's content."""
    return {"schema": SCHEMA, **head, "iterations": [asdict(one) for one in iterations]}


def read(path: Path) -> tuple[Head, list[Iteration]]:
    """(head, iterations). Raises BenchError naming the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA:
            raise BenchError(f"{path.name} is not a {SCHEMA} file")
        iterations = [Iteration(**row) for row in document.pop("iterations")]
        if missing := [name for name in _SUMMARISED if name not in document]:
            raise BenchError(f"{path.name} lacks {', '.join(missing)}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{path.name} cannot be read as a raw benchmark file: {error}") from error
    return document, iterations
