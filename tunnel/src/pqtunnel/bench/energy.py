"""Energy mode: idle, a batch of operations, idle, each a span on the monotonic clock; no joule is made here.

    idle 0 · work 0 · idle 1 · work 1 · idle 2 · …      work k lies between idle k and idle k + 1

Every operation gets blocks of N and of 2 N operations (twice the work must take twice the energy), `blocks`
times each, shuffled anew in every repetition, so that a drift falls on all alike. The power samples are
another process's; `pqlab bench-report` puts both together.
"""

from __future__ import annotations

import gc
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, NotRequired, Protocol, TypedDict

from pqtunnel.bench.operations import Benchmark, Step
from pqtunnel.errors import PrimitiveFailed

SCHEMA: Final = "pqtunnel/bench-blocks/v1"
MIN_BLOCKS: Final = 5
MIN_BLOCK_S: Final = 1.0
_SPARE: Final = 1.15
"""How much longer than asked a batch is planned: pace varies, and a block below a second does not count."""
_PROBE_SHARE: Final = 8
SETTLE_S: Final = 0.25
"""Between making a batch ready and the idle span: the governor and the rail come to rest."""


class Block(TypedDict):
    """One row of blocks.ndjson: a span of kind `idle`, or one of kind `work` with what was done in it.
    operations: how many; multiple: 1 for N operations, 2 for 2 N."""

    kind: Literal["idle", "work"]
    index: int
    category: NotRequired[str]
    algorithm: NotRequired[str]
    operation: NotRequired[str]
    name: NotRequired[str]
    sizes_bytes: NotRequired[dict[str, int]]
    multiple: NotRequired[int]
    operations: NotRequired[int]
    repetition: NotRequired[int]
    start_ns: int
    end_ns: int
    success: NotRequired[bool]


class Clock(Protocol):
    """The monotonic clock of the samples, and a way to be idle."""

    def monotonic_ns(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Lengths in seconds, number of repetitions, seed of the order."""

    block_s: float = 1.5
    idle_s: float = 1.5
    blocks: int = MIN_BLOCKS
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One work block to come: `multiple` 1 for N operations, 2 for 2 N."""

    benchmark: Benchmark
    multiple: int
    repetition: int


def order(benchmarks: Sequence[Benchmark], plan: Plan) -> list[Turn]:
    """Every operation and multiple once a repetition, shuffled within each."""
    rng = random.Random(plan.seed)
    turns: list[Turn] = []
    for repetition in range(plan.blocks):
        block = [Turn(benchmark, multiple, repetition) for benchmark in benchmarks for multiple in (1, 2)]
        rng.shuffle(block)
        turns += block
    return turns


def length_s(operations: int, plan: Plan) -> float:
    """How long a plan takes, operations longer than a block and the making of batches aside."""
    work_s = 1.5 * _SPARE * plan.block_s  # N operations and 2 N, one as often as the other
    return operations * 2 * plan.blocks * (work_s + plan.idle_s + SETTLE_S)


class Batches:
    """Makes batches of one operation ready: one step many times, or a fresh one an iteration."""

    def __init__(self, clock: Clock, plan: Plan) -> None:
        self._clock = clock
        self._plan = plan
        self._steps: dict[str, Step] = {}
        self._counts: dict[str, int] = {}

    def count(self, benchmark: Benchmark) -> int:
        """N: as many operations as fill a block, found once by running a few."""
        if benchmark.path not in self._counts:
            probe_ns = self._plan.block_s * 1e9 / _PROBE_SHARE
            n, taken_ns = 1, self._probe(benchmark, 1)
            while taken_ns < probe_ns:
                n *= 2
                taken_ns = self._probe(benchmark, n)
            one_ns = max(taken_ns / n, 1.0)
            self._counts[benchmark.path] = max(1, math.ceil(_SPARE * self._plan.block_s * 1e9 / one_ns))
        return self._counts[benchmark.path]

    def make(self, benchmark: Benchmark, n: int) -> Callable[[], None]:
        """A batch of `n` operations."""
        if benchmark.fresh:
            steps = [benchmark.prepare() for _ in range(n)]

            def run_fresh() -> None:
                for step in steps:
                    step()

            return run_fresh
        if benchmark.path not in self._steps:
            self._steps[benchmark.path] = benchmark.prepare()
        same = self._steps[benchmark.path]

        def run_same() -> None:
            for _ in range(n):
                same()

        return run_same

    def _probe(self, benchmark: Benchmark, n: int) -> int:
        batch = self.make(benchmark, n)
        begin_ns = self._clock.monotonic_ns()
        batch()
        return self._clock.monotonic_ns() - begin_ns


def rows(turns: Sequence[Turn], plan: Plan, clock: Clock) -> Iterator[Block]:
    """Carry out the turns; one row a span, idle and work alike, as each ends. N is found before the first."""
    batches = Batches(clock, plan)
    for turn in turns:
        if turn.repetition == 0:
            batches.count(turn.benchmark)
    gc.collect()
    gc.disable()  # a collection inside a block would be counted as crypto
    try:
        for index, turn in enumerate(turns):
            n = batches.count(turn.benchmark) * turn.multiple
            batch = batches.make(turn.benchmark, n)
            gc.collect()
            clock.sleep(SETTLE_S)
            yield _idle(index, plan, clock)
            success = True
            start_ns = clock.monotonic_ns()
            try:
                batch()
            except PrimitiveFailed:
                success = False
            end_ns = clock.monotonic_ns()
            benchmark = turn.benchmark
            yield {
                "kind": "work",
                "index": index,
                "category": benchmark.category,
                "algorithm": benchmark.algorithm,
                "operation": benchmark.operation,
                "name": benchmark.name,
                "sizes_bytes": dict(benchmark.sizes_bytes),
                "multiple": turn.multiple,
                "operations": n,
                "repetition": turn.repetition,
                "start_ns": start_ns,
                "end_ns": end_ns,
                "success": success,
            }
        clock.sleep(SETTLE_S)
        yield _idle(len(turns), plan, clock)
    finally:
        gc.enable()


def _idle(index: int, plan: Plan, clock: Clock) -> Block:
    start_ns = clock.monotonic_ns()
    clock.sleep(plan.idle_s)
    return {"kind": "idle", "index": index, "start_ns": start_ns, "end_ns": clock.monotonic_ns()}


def header(plan: Plan, facts: Mapping[str, object], sensor: Mapping[str, object]) -> str:
    """First line of blocks.ndjson: what the spans belong to."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "mode": "energy",
            "clock": "monotonic",
            "host": facts["host"],
            "build": facts["build"],
            "sensor": sensor["sensor"],
            "sensor_class": sensor["sensor_class"],
            **asdict(plan),
        }
    )
