"""What verify asks of it."""

from __future__ import annotations

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView


def named(cell: CellView, tally: Tally) -> None:
    """Each cell has a suite."""
    tally.see()
    tally.require(bool(cell.record["suite_id"]), f"{cell.label}: no suite")
