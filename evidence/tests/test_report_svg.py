"""Axes, number formats and escaping of the drawings."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.report import figures, svg


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"), (0.000123456, "0.000123"), (0.9996, "1.00"), (1.0, "1.00"), (12.345, "12.3"),
        (99.97, "100"), (1234.5, "1,234"), (3005.1, "3,005"), (-2.5, "-2.50"), (0.0980, "0.0980"),
    ],
)  # fmt: skip
def test_three_significant_digits(value: float, shown: str) -> None:
    assert svg.significant(value) == shown


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_printed_numbers_stay_within_half_a_digit(value: float) -> None:
    assert float(svg.significant(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)


@given(st.lists(st.floats(min_value=1e-4, max_value=1e6), min_size=1, max_size=20))
def test_log_axis_holds_every_value_in_order(values: list[float]) -> None:
    axis = svg.LogAxis.over(values, 100.0, 500.0)
    places = [axis(v) for v in sorted(values)]
    assert places == sorted(places)
    assert axis.low <= min(values) * (1 + 1e-9)
    assert axis.high >= max(values) * (1 - 1e-9)
    assert all(100.0 <= p <= 500.0 for p in places)
    ticks = axis.ticks()
    assert sum(labelled for _, labelled in ticks) >= 3
    assert [v for v, _ in ticks] == sorted(v for v, _ in ticks)
    assert all(axis.low * 0.998 <= v <= axis.high * 1.002 for v, _ in ticks)


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=20))
def test_linear_axis_starts_at_zero_and_ends_above(values: list[float]) -> None:
    axis = svg.LinearAxis.from_zero(values, 0.0, 300.0)
    assert axis(0.0) == 0.0
    assert axis.high >= max(values) * (1 - 1e-9)
    assert len(axis.ticks()) >= 2


def test_text_and_attributes_are_escaped() -> None:
    drawn = svg.document("x", 10, 10, "<b>", 'a "q" & b', [svg.text(1, 2, "<script>", class_='"x')])
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    assert "&lt;script&gt;" in drawn
    assert 'class="&quot;x"' in drawn


def test_labels_of_close_lines_keep_their_distance_and_order() -> None:
    placed = figures.spread_labels([100.0, 101.0, 99.0, 300.0], 15.0, 0.0, 310.0)
    ordered = sorted(placed)
    assert all(b - a >= 15.0 - 1e-9 for a, b in pairwise(ordered))
    assert placed[2] < placed[0] < placed[1] < placed[3] <= 310.0


def test_a_suite_without_a_number_is_drawn_as_missing() -> None:
    dot = figures.SuiteDot("some-suite", "HQC", None, None, "#cell-1", "NIST level 1", "not measured: fail")
    other = figures.SuiteDot("other", "HQC", 2.0, 1.0, "#cell-2", "NIST level 1")
    drawn = figures.handshake_dots("f", "t", [dot, other])
    assert "not measured: fail" in drawn
    assert drawn.count("<circle") == 1 and "<rect" not in drawn
