"""A performance tree of `pqtunnel bench`: summaries, intervals and checks, all recomputed from raw files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pqbase.documents import Json, texts_of, whole_of
from pqbase.stats import median_interval, quantile7
from pqevidence.errors import EXIT_CHECK, LabError
from pqtunnel.bench import summary
from pqtunnel.bench.rawfiles import BenchError, Head, Iteration, read
from pqtunnel.suites import AEADS, KEMS, SIGS

_ALGORITHMS = [one.name for registry in (KEMS, SIGS, AEADS) for one in registry.values()]
_OPERATIONS = ("keygen", "encapsulate", "decapsulate", "sign", "verify", "encrypt", "decrypt")


class BenchTreeError(LabError):
    """A folder that is no usable result of `pqtunnel bench`."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__("bench-tree", what, why, "./pqtunnel bench --out FOLDER finishes it", EXIT_CHECK)


@dataclass(frozen=True)
class Measured:
    """One raw file: its head, summary row, and a distribution-free 95 % interval of its median."""

    head: Head
    row: summary.Row
    low_ms: float | None
    high_ms: float | None
    quartiles_ms: tuple[float, float] | None
    first_ns: int
    last_ns: int
    size_bytes: int
    path: str


@dataclass(frozen=True)
class Tree:
    """A whole tree. `checks` are recomputed now: integrity, and whether the stored summaries follow."""

    environment: Json
    files: tuple[Measured, ...]
    checks: tuple[summary.Check, ...]
    count: int

    @property
    def host(self) -> str:
        """Name of the machine that measured."""
        return str(self.environment["host"])

    @property
    def ring(self) -> str:
        """`hardware` on a board, `lab` elsewhere."""
        return "hardware" if self.environment.get("board") else "lab"

    def of(self, category: str) -> list[Measured]:
        """Files of one category, in order of name."""
        return [one for one in self.files if one.head["category"] == category]


def object_of(path: Path) -> Json:
    """A JSON object. Raises BenchTreeError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchTreeError(f"{path.name} cannot be read", str(error)) from error
    if not isinstance(document, dict):
        raise BenchTreeError(f"{path.name} is no JSON object", "damaged, or not written by the bench")
    return document


def load(root: Path) -> Tree:
    """Read a performance tree. Raises BenchTreeError for anything that cannot be read."""
    environment = object_of(root / "environment.json")
    if environment.get("mode") != "performance":
        mode = environment.get("mode")
        raise BenchTreeError(f"{root.name} holds no performance run", f"its mode is {mode}")
    promised = object_of(root / "integrity.json")
    try:
        files = tuple(sorted((_measured(root, path) for path in summary.raw_files(root)), key=_place))
        count = whole_of(promised, "count")
        checks = summary.integrity(root, set(texts_of(promised, "files")), count)
    except BenchError as error:
        raise BenchTreeError(str(error), "a raw file is damaged") from error
    except (KeyError, TypeError, ValueError) as error:
        raise BenchTreeError("integrity.json is damaged", str(error)) from error
    if not files:
        raise BenchTreeError(f"{root.name} holds no raw file", "raw/ is empty")
    return Tree(environment, files, (*checks, _summaries(root)), count)


def _place(one: Measured) -> tuple[str, int, str, int, int, str]:
    """Order of the tables: algorithms as in the registry, then operations, then sizes as numbers."""
    algorithm = str(one.head["algorithm"])
    known = _ALGORITHMS.index(algorithm) if algorithm in _ALGORITHMS else len(_ALGORITHMS)
    operation = str(one.head["operation"])
    turn = _OPERATIONS.index(operation) if operation in _OPERATIONS else len(_OPERATIONS)
    payload = one.head["sizes_bytes"].get("payload", 0)
    return str(one.head["category"]), known, algorithm, turn, payload, one.path


def _summaries(root: Path) -> summary.Check:
    """Are the stored summaries what the raw files give?"""
    rows = summary.summarise(root)
    bad = []
    for category in sorted({str(row["category"]) for row in rows}):
        path = root / "summary" / f"{category}_summary.csv"
        own = summary.as_csv([row for row in rows if row["category"] == category])
        if not path.is_file() or path.read_text(encoding="utf-8") != own:
            bad.append(path.name)
    return summary.Check(
        "summaries follow from the raw files", not bad, ", ".join(bad) or "as expected", "the same bytes"
    )


def _measured(root: Path, path: Path) -> Measured:
    head, iterations = read(path)
    kept = sorted(one.perf_time_ns / 1e6 for one in iterations if not one.warmup and one.success)
    low, high = median_interval(kept)
    quarter, three = quantile7(kept, 0.25), quantile7(kept, 0.75)
    both = (quarter, three) if quarter is not None and three is not None else None
    return Measured(
        head,
        summary.row_of(head, iterations),
        low,
        high,
        both,
        iterations[0].started_ns,
        _end(iterations),
        path.stat().st_size,
        path.relative_to(root).as_posix(),
    )


def _end(iterations: list[Iteration]) -> int:
    return iterations[-1].started_ns + iterations[-1].wall_time_ns
