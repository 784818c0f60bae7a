"""Drift over the blocks of a run: was a block as a whole slower or faster than the others?

Each cell gives one ratio, its cold handshake to the median of its suite over all blocks of the condition.
The suites of a block are its witnesses: what moves all of them alike is the machine's. The statement is about
this block of this run, and about no further one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pqbase.documents import rows_of, whole_of
from pqevidence.analysis.claims import IMPROVED, REGRESSED, seen_from, verdict_of
from pqevidence.analysis.conditions import TWINS, equal_cells, null_of, scenario_order, steps_of
from pqevidence.analysis.estimate import LEVEL, Estimate, estimate, one_sided, without_interval
from pqevidence.analysis.floor import Floor, Null, cost_class
from pqevidence.analysis.groups import SUITE
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.metrics import BY_NAME, HANDSHAKE, table_values
from pqevidence.analysis.multiplicity import holm
from pqevidence.analysis.stats import BOOTSTRAP_RUNS_COUNT, INSUFFICIENT, MIN_RUNS_COUNT, median
from pqevidence.analysis.table import Table, Value
from pqevidence.limits import MIN_FLOOR_PAIRS_COUNT
from pqevidence.record.rings import weakest

NAME = "drift"
_METRIC = BY_NAME[HANDSHAKE]
SLOWER, FASTER = "slower", "faster"
#: e to this is the largest ratio that is printed
_MOST_LOG = 50.0
_WORDS = {REGRESSED: SLOWER, IMPROVED: FASTER}
FEW_BLOCKS = f"fewer than {MIN_RUNS_COUNT} blocks"
FEW_SUITES = f"fewer than {MIN_RUNS_COUNT} suites with {MIN_RUNS_COUNT} blocks"
COLUMNS = (
    "condition", "earlier_run", "block", "blocks_count", "ring", "n_suites", "median_ratio", "mean_ratio",
    "low_ratio", "high_ratio", "interval_level", "method", "p_value", "p_holm", "family_count",
    "floor_ratio", "floor_pairs", "floor_method", "visible_ratio", "unit_of_inference", "verdict", "reason",
    "cells",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Block:
    """A block in the order of time: place of its run among the bundle's, its number in the plan."""

    run: int
    number: int


@dataclass(frozen=True)
class Witness:
    """One cell in its block. log_ratio: ln(handshake / median of its suite); cost: class of that median."""

    cell: Cell
    log_ratio: float
    cost: int


@dataclass(frozen=True)
class Judged:
    """A block with what may be said of it; p_holm: within its condition, over `tests` blocks."""

    block: Block
    witnesses: tuple[Witness, ...]
    result: Estimate
    p_holm: float | None
    tests: int
    floor: Floor

    @property
    def verdict(self) -> str:
        """slower, faster, not distinguishable, insufficient."""
        word = verdict_of(self.result, self.p_holm, self.floor)
        return _WORDS.get(word, word)


def drift_table(bundle: BundleData, handshakes: Table) -> Table:
    """One row a condition and block, in the order of the scenario and of time; `insufficient` below three
    blocks, or three suites that passed in three blocks."""
    walls = table_values(handshakes.rows, (), ())[HANDSHAKE]
    null = _Nulls(bundle, walls)
    runs = runs_of(bundle)
    table = Table(NAME, COLUMNS)
    for condition in _conditions(bundle):
        blocks: dict[Block, list[Cell]] = defaultdict(list)
        for cell in bundle.cells:
            if cell.condition == condition and cell.cell_id in walls:
                blocks[_block_of(cell, runs)].append(cell)
        for one in judged(blocks, walls, null.without, bundle.seed):
            table.add(
                condition=condition,
                earlier_run=runs[one.block.run] if one.block.run < len(runs) else None,
                block=one.block.number,
                blocks_count=len(blocks),
                ring=weakest(c.ring for c in blocks[one.block]),
                reason=_why_none(one, len(blocks)),
                **_values(one),
            )
    return table


class _Nulls:
    """What a handshake differs by where nothing differs: A/A twins where they suffice. Else steps between
    repetitions, but none into or out of the block that is judged: its own drift is no noise of its own."""

    def __init__(self, bundle: BundleData, walls: dict[str, float]) -> None:
        self._cells, self._walls, self._runs = bundle.cells, walls, runs_of(bundle)
        equal, kind = equal_cells(bundle, _METRIC, walls)
        self._twins = equal if kind == TWINS and len(equal) >= MIN_FLOOR_PAIRS_COUNT else None
        self._known: dict[Block, Null] = {}

    def without(self, block: Block) -> Null:
        """The floor's differences for this block."""
        if block not in self._known:
            others = (cell for cell in self._cells if _block_of(cell, self._runs) != block)
            found = self._twins if self._twins is not None else steps_of(others, _METRIC, self._walls)
            self._known[block] = null_of(found, _METRIC)
        return self._known[block]


def runs_of(bundle: BundleData) -> list[str]:
    """Ids of the earlier runs whose cells the bundle holds, oldest first."""
    return [str(entry["run_id"]) for entry in rows_of(bundle.run, "lineage", [])]


def _conditions(bundle: BundleData) -> list[str]:
    place = scenario_order(bundle)
    named = {cell.condition for cell in bundle.cells}
    return sorted(named, key=lambda name: (place.get(name, len(place)), name))


def _block_of(cell: Cell, runs: Sequence[str]) -> Block:
    run = runs.index(cell.earlier_run) if cell.earlier_run in runs else len(runs)
    return Block(run, whole_of(cell.plan, "block"))


def judged(
    blocks: Mapping[Block, Sequence[Cell]],
    walls: Mapping[str, float],
    null: Callable[[Block], Null],
    seed: int,
) -> list[Judged]:
    """The blocks of one condition in the order of time, each by its witnesses. Where outliers of blocks lie
    on one side, no interval of a mean holds, and nothing is said. walls: cell id → handshake, ms; null: what
    differs where nothing does, for one block."""
    witnesses = witnesses_of(blocks, walls)
    values = [[witness.log_ratio for witness in mine] for mine in witnesses.values()]
    results = [estimate(mine, seed=seed, tests=len(values)) for mine in values]
    if _struck(values):
        results = [without_interval(result) for result in results]
    corrected = holm([result.p_value for result in results])
    tests = sum(1 for p in corrected if p is not None)
    return [
        Judged(block, tuple(mine), result, p_holm, tests, null(block).floor([w.cost for w in mine]))
        for (block, mine), result, p_holm in zip(witnesses.items(), results, corrected, strict=True)
    ]


def _struck(values: Sequence[Sequence[float]]) -> bool:
    """Do faults lie on one side? Below ten suites Student's t is wide enough to bear them, and what looks
    like faults there is chance (docs/COMPARISONS.md)."""
    if max(map(len, values), default=0) < BOOTSTRAP_RUNS_COUNT:
        return False
    # a cell that is its suite's median stands at exactly 0 and tells nothing of how values scatter
    return one_sided([value for value in mine if value != 0.0] for mine in values)


def witnesses_of(
    blocks: Mapping[Block, Sequence[Cell]], walls: Mapping[str, float]
) -> dict[Block, list[Witness]]:
    """Block → its witnesses, in the order of time. A suite that passed in fewer than three blocks is none:
    its median would be little more than itself."""
    suites: dict[str, list[float]] = defaultdict(list)
    for cells in blocks.values():
        for cell in cells:
            suites[cell.suite_id].append(walls[cell.cell_id])
    middles = {s: m for s, v in suites.items() if len(v) >= MIN_RUNS_COUNT and (m := median(v))}
    return {
        block: [
            Witness(cell, math.log(walls[cell.cell_id] / middle), cost_class(middle))
            for cell in blocks[block]
            if (middle := middles.get(cell.suite_id)) is not None and walls[cell.cell_id] > 0.0
        ]
        for block in sorted(blocks)
    }


def _values(one: Judged) -> dict[str, Value]:
    """Ratios, interval, corrected p, floor and verdict as columns."""

    def ratio(log: float | None) -> float | None:
        return None if log is None else math.exp(min(log, _MOST_LOG))

    result, floor = one.result, one.floor
    return {
        "n_suites": result.n,
        "median_ratio": ratio(median([witness.log_ratio for witness in one.witnesses])),
        "mean_ratio": ratio(result.mean),
        "low_ratio": ratio(result.low),
        "high_ratio": ratio(result.high),
        "interval_level": None if result.low is None else LEVEL,
        "method": result.method,
        "p_value": result.p_value,
        "p_holm": one.p_holm,
        "family_count": one.tests,
        "floor_ratio": ratio(floor.value),
        "floor_pairs": floor.pairs,
        "floor_method": floor.method,
        "visible_ratio": ratio(seen_from(result, floor, one.tests)),
        "unit_of_inference": SUITE,
        "verdict": one.verdict,
        "cells": " ".join(sorted(witness.cell.cell_id for witness in one.witnesses)),
    }


def _why_none(one: Judged, blocks_count: int) -> str | None:
    """Why a block has no interval; None where it has one."""
    if one.result.low is not None:
        return None
    if one.result.method != INSUFFICIENT:
        return one.result.method
    return FEW_BLOCKS if blocks_count < MIN_RUNS_COUNT else FEW_SUITES
