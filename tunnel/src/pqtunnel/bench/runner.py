"""A whole run: known answers first, then every benchmark without a finished raw file, then summaries."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pqbase.documents import Json, rows_of, whole_of
from pqtunnel.bench import folder, summary, timing
from pqtunnel.bench.operations import Benchmark
from pqtunnel.bench.progress import Progress
from pqtunnel.bench.rawfiles import BenchError, Head, document_of, read, write_whole
from pqtunnel.kat import selftest
from pqtunnel.primitives.providers import provider_facts

MODE: Final = "performance"
PACE_PRIOR_MS: Final = 10_000.0
"""Work at the expected pace that the estimate of the time left begins with."""


@contextlib.contextmanager
def pinned(cpu: int | None) -> Iterator[int | None]:
    """Keep this process on one core (its last, unless one is named) for as long as the block lasts.

    Yields the core, or None where that cannot be. Raises BenchError for a core that does not exist here.
    """
    if sys.platform == "win32" or not hasattr(os, "sched_setaffinity"):
        yield None
        return
    allowed = os.sched_getaffinity(0)
    if cpu is not None and cpu not in allowed:
        raise BenchError(f"core {cpu} is not one of this process's: {sorted(allowed)}", hint="omit --cpu")
    chosen = max(allowed) if cpu is None else cpu
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        # whoever called, and what it starts next, has all its cores again
        os.sched_setaffinity(0, allowed)


def other_cpu(cpu: int | None) -> int | None:
    """A core for what runs beside the work that `pinned(cpu)` holds; None where there is no other."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    others = [one for one in allowed if one != (allowed[-1] if cpu is None else cpu)]
    return others[-1] if others else None


def environment(mode: str, cpu: int | None, overhead_ns: int) -> Json:
    """environment.json: what was measured on what. `build` is the hash that every raw file repeats."""
    facts = provider_facts()
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return {
        "schema": "pqtunnel/bench-environment/v1",
        "mode": mode,
        "host": platform.node(),
        "machine": platform.machine(),
        "board": _board(),
        "cpu": _cpu_model(),
        "kernel": platform.release(),
        "governor": _governor(cpu),
        "pinned_cpu": cpu,
        "timer": "time.perf_counter_ns",
        "timer_overhead_ns": overhead_ns,
        "load_average": _load_average(),
        "build": digest,
        "providers": facts,
    }


def _load_average() -> list[float] | None:
    if sys.platform == "win32":
        return None
    return list(os.getloadavg())


def _board() -> str | None:
    """What the device tree names this board; None on a machine without one."""
    try:
        return Path("/proc/device-tree/model").read_text(encoding="utf-8").rstrip("\0") or None
    except OSError:
        return None


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _governor(cpu: int | None) -> str | None:
    try:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu or 0}/cpufreq/scaling_governor")
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def known_answers() -> list[Json]:
    """The known-answer test of this host and build. Raises BenchError when an answer is another."""
    answers = selftest()
    if not answers["ok"]:
        bad = ", ".join(str(item["name"]) for item in rows_of(answers, "items") if item["ok"] is False)
        raise BenchError(f"known answers fail on this host: {bad}", hint="./pqtunnel selftest")
    return rows_of(answers, "items")


def run(root: Path, benchmarks: Iterable[Benchmark], count: int, cpu: int | None, progress: Progress) -> Json:
    """Fill `root`; finished files of the same build are kept. Returns summary rows and checks.

    Raises BenchError when a known answer fails, or the folder is in use or holds another build's files.
    """
    todo = list(benchmarks)
    with folder.held(root, MODE):
        answers = known_answers()
        with pinned(cpu) as core:
            facts = environment(MODE, core, timing.timer_overhead_ns())
            _same_build(root, facts)
            write_whole(root / folder.ENVIRONMENT, {**facts, "selftest": answers})
            _fill(root, todo, count, core, facts, progress)
        return finish(root, {b.path for b in todo}, count)


def _fill(
    root: Path, todo: list[Benchmark], count: int, cpu: int | None, facts: Json, progress: Progress
) -> None:
    finished = {b.path for b in todo if _is_finished(root / "raw" / b.path, count)}
    left_ms = sum(b.expected_ms * (count + timing.WARMUPS) for b in todo if b.path not in finished)
    pace = 1.0
    spent_ms = planned_ms = 0.0
    for place, benchmark in enumerate(todo, 1):
        if benchmark.path in finished:
            continue
        what = f"{benchmark.algorithm} {benchmark.operation}"
        progress.begin(place, len(todo), what, left_ms * pace)
        begin_s = time.monotonic()
        iterations = timing.run(benchmark, count, between=progress.step)
        head: Head = {
            "category": benchmark.category,
            "algorithm": benchmark.algorithm,
            "operation": benchmark.operation,
            "name": benchmark.name,
            "published": benchmark.published,
            "sizes_bytes": dict(benchmark.sizes_bytes),
            "mode": MODE,
            "host": str(facts["host"]),
            "build": str(facts["build"]),
            "timer_overhead_ns": whole_of(facts, "timer_overhead_ns"),
            "pinned_cpu": cpu,
        }
        write_whole(root / "raw" / benchmark.path, document_of(head, iterations))
        own_ms = benchmark.expected_ms * (count + timing.WARMUPS)
        left_ms -= own_ms
        spent_ms += (time.monotonic() - begin_s) * 1e3
        planned_ms += own_ms
        pace = pace_of(spent_ms, planned_ms)
    progress.end()


def pace_of(spent_ms: float, planned_ms: float) -> float:
    """How much longer than expected benchmarks take on this machine, from those that are done.

    The first ones take microseconds, and mostly what surrounds them: they say little, and are weighed as
    little beside some seconds of work at the expected pace.
    """
    return (spent_ms + PACE_PRIOR_MS) / (planned_ms + PACE_PRIOR_MS)


def finish(root: Path, names: set[str], count: int) -> Json:
    """Write the summaries from the raw files and return them with the checks."""
    rows = summary.summarise(root)
    for category in sorted({row["category"] for row in rows}):
        own = [row for row in rows if row["category"] == category]
        write_whole(root / "summary" / f"{category}_summary.json", {"rows": own})
        (root / "summary" / f"{category}_summary.csv").write_text(summary.as_csv(own), encoding="utf-8")
    checks = summary.integrity(root, names, count)
    told = [
        {"name": c.name, "passed": c.passed, "observed": c.observed, "expected": c.expected} for c in checks
    ]
    write_whole(root / "integrity.json", {"count": count, "files": sorted(names), "checks": told})
    return {"rows": rows, "checks": told, "ok": all(check.passed for check in checks)}


def _is_finished(path: Path, count: int) -> bool:
    if not path.is_file():
        return False
    _, iterations = read(path)
    return sum(not one.warmup for one in iterations) == count


def _same_build(root: Path, facts: Json) -> None:
    for path in summary.raw_files(root):
        head, _ = read(path)
        if (head.get("build"), head.get("host")) != (facts["build"], facts["host"]):
            raise BenchError(
                f"{path.name} in this folder was measured with another build or on another host",
                hint="give another --out: results of two builds do not belong in one tree",
            )
        return  # every file repeats the same two values; the integrity check looks at all of them
