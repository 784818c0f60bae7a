"""How late datagrams came, by condition: the share of those sent that had arrived within each time.

What was lost counts as sent and never arrives, so that a curve ends below 100 %. Shares are counts at fixed
times, sixty to a factor of ten: cells of any size can be added up, and the counts stay exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import Cell
from pqevidence.analysis.table import Table
from pqevidence.record.rings import weakest

STEPS_PER_DECADE = 60
_LEAST_DECADE, _MOST_DECADE = -3, 5
#: ms; written out to six digits, so that they are the same numbers on every machine
TIMES_MS = tuple(
    float(f"{10 ** (step / STEPS_PER_DECADE):.6g}")
    for step in range(_LEAST_DECADE * STEPS_PER_DECADE, _MOST_DECADE * STEPS_PER_DECADE + 1)
)

COLUMNS = (
    Column("condition", "condition"),
    Column("direction", "down: drone to ground; up: ground to drone"),
    Column("ring", "weakest ring among the cells"),
    Column("n_cells", "cells that passed"),
    Column("sent_count", "datagrams sent in them, lost ones included"),
    Column("received_count", "datagrams that arrived"),
    Column("within_ms", "one-way latency"),
    Column("share_pct", "of those sent the ones that had arrived within it"),
)


@dataclass
class _Group:
    """Cells of one condition and direction. counts: datagrams that came within each of TIMES_MS."""

    rings: set[str] = field(default_factory=set)
    cells: int = 0
    sent: int = 0
    received: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * len(TIMES_MS))


class LatencyShares:
    """Takes the delays of one cell after another."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def take(self, cell: Cell, direction: str, sent: int, delays_ms: Sequence[float]) -> None:
        """Add a cell's datagrams of one direction. sent: all of them, lost ones included."""
        group = self._groups.setdefault((cell.condition, direction), _Group())
        group.rings.add(cell.ring)
        group.cells += 1
        group.sent += sent
        group.received += len(delays_ms)
        ordered = sorted(delays_ms)
        group.counts = [
            count + bisect_right(ordered, time) for count, time in zip(group.counts, TIMES_MS, strict=True)
        ]

    def table(self) -> Table:
        """latency_shares.csv: a row where a share grows, and the one before it, so that steps stay steps."""
        table = Table("latency_shares", names(COLUMNS))
        for (condition, direction), group in sorted(self._groups.items()):
            for place in _told(group.counts):
                table.add(
                    condition=condition,
                    direction=direction,
                    ring=weakest(group.rings),
                    n_cells=group.cells,
                    sent_count=group.sent,
                    received_count=group.received,
                    within_ms=TIMES_MS[place],
                    share_pct=100.0 * group.counts[place] / group.sent,
                )
        return table


def _told(counts: Sequence[int]) -> list[int]:
    """Places at which the count differs from that before, each with the place before it."""
    grown = [place for place in range(1, len(counts)) if counts[place] != counts[place - 1]]
    return sorted({near for place in grown for near in (place - 1, place)} | ({0} if counts[0] else set()))
