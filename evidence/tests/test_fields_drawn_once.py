"""Fields that say the same in many cells are made once; equal is not alike for numbers that are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pqevidence.report.html import _field
from pqevidence.report.sections.cells import _made_row, _row

FIELD = {"value": 1, "unit": "ms", "source": "spans", "validity": "ok", "reason": None, "n": 1}
#: equal to Python, and not the same on a page
ALIKE: tuple[Any, ...] = (1, 1.0, True)
ZEROS: tuple[Any, ...] = (0, 0.0, -0.0, False)


@pytest.mark.parametrize("values", [*itertools.permutations(ALIKE), *itertools.permutations(ZEROS)], ids=str)
def test_what_was_made_before_changes_no_row(values: tuple[Any, ...]) -> None:
    for value in values:
        field = {**FIELD, "value": value}
        assert _row("a_field", field) == _made_row("a_field", field)


@pytest.mark.parametrize(
    "change",
    [
        {"value": None, "validity": "null", "reason": "no sensor"},
        {"value": 2, "validity": "invalid", "reason": "busy"},
        {"value": 2, "validity": "model"},
        {"value": {"drone": 1}},
        {"value": "<b>"},
        {"unit": None},
        {"n": None},
        {"n": 2},
        {"source": ["not", "text"]},
    ],
    ids=str,
)
def test_every_part_of_a_field_counts(change: dict[str, Any]) -> None:
    field = {**FIELD, **change}
    assert _row("a_field", FIELD) != _row("a_field", field) == _made_row("a_field", field)


def test_a_value_is_markup_nowhere() -> None:
    row = _row("a_field", {**FIELD, "value": "<b>&"})
    assert "&lt;b&gt;&amp;" in _field(row) and "<b>" not in _field(row)
