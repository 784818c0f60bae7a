"""Handshake times that are the same at every level: asked of each condition whose link is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pqevidence.kernel.result import Tally
from pqevidence.measures.handshake.checks import level_dependence

SUITES = {
    "cs-mlkem512-aesgcm-mldsa44": 2.0, "cs-mlkem768-aesgcm-mldsa65": 3.0, "cs-mlkem1024-aesgcm-mldsa87": 4.0,
}  # fmt: skip


def cells(condition: str, times_ms: dict[str, float], *, impaired: bool = False) -> list[Any]:
    return [
        SimpleNamespace(
            plan={"suite_id": suite, "condition": condition},
            verdict="pass",
            impaired=impaired,
            record={"categories": {"D": {"handshake_total_duration_ms": {"value": value}}}},
        )
        for suite, value in times_ms.items()
    ]


def told(*parts: list[Any]) -> Tally:
    tally = Tally(unit="suites")
    level_dependence(SimpleNamespace(cells=[cell for part in parts for cell in part]), tally)  # type: ignore[arg-type]
    return tally


ASLEEP = dict.fromkeys(SUITES, 500.0)
APART = {suite: 100 * value for suite, value in SUITES.items()}
SLOW = {suite: 500.0 + value for suite, value in SUITES.items()}


@pytest.mark.parametrize(
    ("parts", "problem", "note"),
    [
        ([cells("baseline", SUITES)], None, ""),
        ([cells("baseline", SUITES), cells("radio", SLOW, impaired=True)], None, ""),
        ([cells("radio", SLOW, impaired=True)], None, "too few suites or levels to tell"),
        ([cells("baseline", ASLEEP)], "baseline: 3 suites of 3 levels within 0.00 %", ""),
        # another condition's honest times hide no sleep
        ([cells("apart", APART), cells("asleep", ASLEEP)], "asleep: 3 suites of 3 levels within 0.00 %", ""),
        ([cells("baseline", dict(list(ASLEEP.items())[:2]))], None, "too few suites or levels to tell"),
    ],
)
def test_each_condition_of_an_unimpaired_link_is_judged(
    parts: list[list[Any]], problem: str | None, note: str
) -> None:
    tally = told(*parts)
    assert tally.problems == ([] if problem is None else [problem])
    assert tally.note == note


def test_it_counts_suites() -> None:
    tally = told(cells("a", SUITES), cells("b", SUITES))
    assert (tally.looked, tally.low, tally.high) == (3, 2.0, 4.0)
