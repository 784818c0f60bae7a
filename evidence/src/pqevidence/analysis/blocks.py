"""The machine's part of a suite's handshakes: what moves all suites of a block alike, estimated and taken
out.

A machine wanders from block to block. Repetitions of one suite then scatter by more than the suite's own
noise, and neighbouring ones are alike, so that an interval over them speaks of neither. The other suites of a
block are its witnesses: the median of their moves is the block's, and no one suite's fault can shift it. A
suite's own centre is a mean: the median of three values is one of them, so that a third of all moves would be
exactly nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from pqevidence.analysis.stats import MIN_RUNS_COUNT, median

B = TypeVar("B", bound=Hashable)
#: With fewer suites than this the witnesses' own noise is no small part of what they tell.
MIN_SUITES_COUNT: Final = 5
_PASSES = 4


def without_blocks(walls: Mapping[str, Mapping[B, float]]) -> dict[str, list[float]]:
    """Suite → one value a block, as at the run's average state of the machine.

    walls: suite → block → positive value. Values stay as they are where fewer than five suites stand in three
    blocks or more.
    """
    logs = {suite: {block: math.log(v) for block, v in cells.items()} for suite, cells in walls.items()}
    whole = {suite: cells for suite, cells in logs.items() if len(cells) >= MIN_RUNS_COUNT}
    moved = _moved(whole) if len(whole) >= MIN_SUITES_COUNT else {}
    return {
        suite: [math.exp(value) for value in moved.get(suite, list(cells.values()))]
        for suite, cells in logs.items()
    }


def _moved(logs: Mapping[str, Mapping[B, float]]) -> dict[str, list[float]]:
    """Suite → its logarithms less the moves that the others tell, with its own noise at its own size."""
    blocks: dict[B, list[str]] = defaultdict(list)
    for suite, cells in logs.items():
        for block in cells:
            blocks[block].append(suite)
    told = {block: suites for block, suites in blocks.items() if len(suites) >= MIN_SUITES_COUNT}
    moves = dict.fromkeys(told, 0.0)
    for _ in range(_PASSES):  # a suite that lacks a block has its centre from the moves of the others
        centres = {
            suite: _mean([value - moves.get(block, 0.0) for block, value in cells.items()])
            for suite, cells in logs.items()
        }
        away = {b: {s: logs[s][b] - centres[s] for s in suites} for b, suites in told.items()}
        moves = _centred({block: median(list(rest.values())) or 0.0 for block, rest in away.items()})
    found = {}
    for suite, cells in logs.items():
        others = _centred(
            {
                block: median([value for name, value in rest.items() if name != suite]) or 0.0
                for block, rest in away.items()
            }
        )
        steady = [value - others.get(block, 0.0) for block, value in cells.items()]
        centre, own = _mean(steady), _own_share(len(logs))
        found[suite] = [centre + own * (value - centre) for value in steady]
    return found


def _own_share(suites_count: int) -> float:
    """A suite's own noise in its steady values: the median of m others adds a variance of about (π / 2) / m,
    if all are equally noisy."""
    return 1.0 / math.sqrt(1.0 + math.pi / 2.0 / suites_count)


def _centred(moves: Mapping[B, float]) -> dict[B, float]:
    """About their mean: the run's average state stays in."""
    centre = _mean(list(moves.values())) if moves else 0.0
    return {block: move - centre for block, move in moves.items()}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
