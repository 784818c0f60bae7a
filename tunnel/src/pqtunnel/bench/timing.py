"""Performance mode: one benchmark, its iterations one by one, two clocks around each."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

from pqtunnel.bench.operations import Benchmark
from pqtunnel.bench.rawfiles import Iteration
from pqtunnel.errors import PrimitiveFailed

WARMUPS: Final = 5
_TIMER_READINGS: Final = 2_000


def timer_overhead_ns() -> int:
    """Median of what the pair of performance-counter readings itself takes, around nothing."""
    clock = time.perf_counter_ns
    readings = []
    for _ in range(_TIMER_READINGS):
        begin = clock()
        readings.append(clock() - begin)
    return sorted(readings)[_TIMER_READINGS // 2]


def run(
    benchmark: Benchmark,
    count: int,
    warmups: int = WARMUPS,
    between: Callable[[int, int], None] | None = None,
) -> list[Iteration]:
    """`warmups` and then `count` iterations; the warm-ups are kept and marked.

    `between` is called after each iteration, outside the timer, with how many are done and of how many.
    A step that raises PrimitiveFailed is an iteration without success, and stays in the file.
    """
    perf, wall = time.perf_counter_ns, time.time_ns
    step = benchmark.prepare()
    iterations: list[Iteration] = []
    last_ns = 0
    gc.collect()
    gc.disable()  # a collection inside the timer would be counted as crypto
    try:
        for index in range(warmups + count):
            if benchmark.fresh and index:
                step = benchmark.prepare()
            success = True
            while (started_ns := wall()) <= last_ns:
                pass  # two iterations of a fast operation within one tick of the clock: wait for the next
            begin_ns = perf()
            try:
                step()
            except PrimitiveFailed:
                success = False
            end_ns = perf()
            ended_ns = wall()
            last_ns = started_ns
            iterations.append(
                Iteration(
                    index, index < warmups, started_ns, end_ns - begin_ns, ended_ns - started_ns, success
                )
            )
            if between is not None:
                between(index + 1, warmups + count)
            if index % 50 == 49:
                gc.collect()
    finally:
        gc.enable()
    return iterations
