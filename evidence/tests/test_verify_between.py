"""The time between two attempts: as long as services start, and no longer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView
from pqevidence.record.raw import RawRun
from pqevidence.verify.checks_copies import START_S, idle

S = 1_000_000_000
CELL_S = 16
CONDITIONS: dict[str, dict[str, object]] = {
    "calm": {},
    "lossy": {"link": {"loss_pct": 1}},
    "flood": {"attack": {"kind": "flood", "start_s": 1, "for_s": 2, "rate_pps": 10}},
}


def _problems(conditions: list[str], gap_s: float, before: int) -> list[str]:
    """What the check says of cells of these conditions, a second apart; `gap_s` before that one."""
    told: dict[str, object] = {}
    named: list[object] = [{"name": name, **condition} for name, condition in CONDITIONS.items()]
    run = RawRun(told, {"ring": "lab", "conditions": named}, {}, {}, {})
    cells, now_ns = [], 100 * S
    for number, condition in enumerate(conditions):
        start_ns = now_ns + (int(gap_s * S) if number == before else S)
        now_ns = start_ns + CELL_S * S
        wall = {"start_ns": start_ns, "end_ns": now_ns}
        cells.append(
            SimpleNamespace(
                run=run,
                plan={"condition": condition},
                verdict="pass",
                label=f"{condition} #{number}",
                folder=Path(f"cell {number}, which kept no attempt"),
                record={"wall": wall},
            )
        )
    told |= {"started_ns": 99 * S, "ended_ns": now_ns + S}
    tally = Tally()
    idle(cast(BundleView, cast(Any, SimpleNamespace(runs=[run], cells=cells))), tally)
    return tally.problems


@pytest.mark.parametrize("first", ["lossy", "flood"])
def test_a_service_starts_before_the_first_cell_that_asks_for_it(first: str) -> None:
    assert _problems(["calm", first, first], START_S - 1, before=1) == []


@pytest.mark.parametrize(
    ("conditions", "gap_s", "before"),
    [
        (["calm", "calm", "flood"], START_S - 1, 1),
        (["calm", "flood", "flood"], START_S - 1, 2),
        (["flood", "calm", "flood"], START_S - 1, 2),
        (["calm", "flood", "calm"], START_S + 1, 1),
    ],
)
def test_and_only_once_and_not_for_ever(conditions: list[str], gap_s: float, before: int) -> None:
    assert len(_problems(conditions, gap_s, before)) == 1
