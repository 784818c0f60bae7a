"""The two ways to drive a target: atheris (libFuzzer) where it is installed, else a loop of our own.

Both never stop at a finding: it is kept once per exception type and place, and the search goes on.
"""

from __future__ import annotations

import base64
import random
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from coverage import Coverage
from mutate import mutate

RUN_LIMIT_S = 20
"""One input that takes more processor time is a finding of kind Slow; the clock on the wall says nothing of a
search that yields to everything else."""


class Slow(Exception):
    """One input held the target for longer than RUN_LIMIT_S."""


@dataclass
class Result:
    """What one search did."""

    engine: str
    seed: int
    executions: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    lines_covered: int | None = None
    """By our own loop; null where this Python is blind, or libFuzzer searched."""
    edges: int | None = None
    """By libFuzzer, which counts branches taken, not lines."""
    inputs: list[bytes] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def note(self, error: BaseException, data: bytes) -> None:
        """Keep a finding unless one of its kind and place is kept already."""
        frames = traceback.extract_tb(error.__traceback__)
        inner = next((f for f in reversed(frames) if "/pq" in f.filename), frames[-1]) if frames else None
        where = f"{Path(inner.filename).name}:{inner.name}:{inner.lineno}" if inner else "?"
        kind = type(error).__name__
        if any((f["kind"], f["where"]) == (kind, where) for f in self.findings):
            return
        self.findings.append(
            {"kind": kind, "where": where, "text": str(error)[:300], "input": base64.b64encode(data).decode()}
        )


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise Slow(f"one input took more than {RUN_LIMIT_S} s of processor time")


def watch() -> None:
    """Once a process: make the alarm of `guarded` raise Slow."""
    signal.signal(signal.SIGPROF, _alarm)


def guarded(run: Callable[[bytes], None], data: bytes, result: Result) -> None:
    """One execution; what escapes is a finding. MemoryError and RecursionError are no excuse."""
    try:
        signal.setitimer(signal.ITIMER_PROF, RUN_LIMIT_S)
        run(data)
    except Exception as error:  # noqa: BLE001  whatever escapes a target is what is searched for
        result.note(error, data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        result.executions += 1


def own_loop(
    run: Callable[[bytes], None],
    corpus: Mapping[str, bytes],
    words: list[bytes],
    seconds: float,
    seed: int,
    limit: int,
) -> Result:
    """Mutate, run, keep what reaches a new line. On a Python without sys.monitoring nothing is kept."""
    watch()
    rng = random.Random(seed)
    begin_s, cpu_s = time.monotonic(), time.process_time()
    with Coverage() as coverage:
        result = Result("own (blind)" if coverage.blind else "own", seed)
        pool = list(corpus.values()) or [b""]
        for data in pool:
            guarded(run, data, result)
        coverage.lines |= coverage.fresh
        while time.monotonic() - begin_s < seconds:
            # half of the time from the newest: what opened a door is the best place to look behind it
            parent = rng.choice(pool[-16:] if rng.random() < 0.5 else pool)
            data = mutate(parent, pool, words, rng, limit)
            coverage.fresh.clear()
            guarded(run, data, result)
            if coverage.fresh:
                coverage.lines |= coverage.fresh
                pool.append(data)
                result.inputs.append(data)
        result.lines_covered = None if coverage.blind else len(coverage.lines)
    result.wall_s, result.cpu_s = time.monotonic() - begin_s, time.process_time() - cpu_s
    return result


def minimise(run: Callable[[bytes], None], inputs: list[bytes]) -> list[bytes]:
    """The fewest of `inputs`, greedily and shortest first, that reach every line all of them reach."""
    scratch = Result("minimise", 0)
    kept: list[bytes] = []
    watch()
    with Coverage() as coverage:
        if coverage.blind:
            return inputs
        reached: set[tuple[str, int]] = set()
        for data in sorted(set(inputs), key=lambda item: (len(item), item)):
            coverage.fresh = set()
            guarded(run, data, scratch)
            if coverage.fresh - reached:
                reached |= coverage.fresh
                kept.append(data)
    return kept
