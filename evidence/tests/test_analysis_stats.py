"""Statistics: against printed tables, by their invariances, and what they refuse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.analysis import stats

positive = st.lists(st.floats(min_value=1e-3, max_value=1e4), min_size=3, max_size=9)


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 9, 2.262), (0.95, 5, 2.015), (0.995, 29, 2.756)],
)
def test_student_quantiles_match_the_printed_table(p: float, df: int, expected: float) -> None:
    assert stats.student_t_quantile(p, df) == pytest.approx(expected, abs=6e-4)


def test_student_quantile_refuses_what_it_cannot_answer() -> None:
    with pytest.raises(ValueError, match="df"):
        stats.student_t_quantile(0.975, 0)
    with pytest.raises(ValueError, match="p"):
        stats.student_t_quantile(1.0, 3)


def test_order_statistics_by_hand() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert stats.median(values) == 2.5
    assert stats.mad([1.0, 2.0, 9.0]) == 1.0
    assert stats.sd([2.0, 4.0]) == pytest.approx(math.sqrt(2))


def test_nothing_gives_nothing_and_never_zero() -> None:
    for function in (stats.median, stats.mean, stats.sd, stats.mad):
        assert function([]) is None
    assert stats.sd([3.0]) is None


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 6.0]])
def test_no_interval_below_three_runs(values: list[float]) -> None:
    assert stats.log_interval(values) is None


def test_student_interval_by_hand() -> None:
    interval = stats.log_interval([1.0, 10.0, 100.0])
    assert interval is not None
    half = 4.3027 * math.log(10) / math.sqrt(3)
    assert interval.estimate == pytest.approx(10.0)
    assert interval.high == pytest.approx(10.0 * math.exp(half), rel=1e-3)
    assert interval.low * interval.high == pytest.approx(100.0)
    assert interval.method == "Student t"


def test_a_log_interval_refuses_zero() -> None:
    with pytest.raises(ValueError, match="positive"):
        stats.log_interval([0.0, 1.0, 2.0])


@given(positive, st.floats(min_value=0.01, max_value=100))
def test_interval_scales_with_its_unit(values: list[float], factor: float) -> None:
    one, other = stats.log_interval(values), stats.log_interval([v * factor for v in values])
    assert one is not None
    assert other is not None
    assert other.low == pytest.approx(one.low * factor, rel=1e-6)
    assert one.low <= one.estimate * (1 + 1e-12)
    assert one.high >= one.estimate * (1 - 1e-12)


def test_bootstrap_is_seeded_and_holds_its_estimate() -> None:
    values = [1.0, 1.1, 1.3, 0.9, 1.2, 5.0, 1.05, 0.95, 1.15, 1.25, 1.0]
    first, again = stats.log_interval(values, seed=3), stats.log_interval(values, seed=3)
    other = stats.log_interval(values, seed=4)
    assert first == again
    assert first is not None
    assert other is not None
    assert first.method == "bootstrap-t"
    assert first.low < first.estimate < first.high
    assert (first.low, first.high) != (other.low, other.high)


def test_bootstrap_of_equal_values_is_a_point() -> None:
    interval = stats.log_interval([2.0] * 12)
    assert interval is not None
    assert interval.low == pytest.approx(2.0)
    assert interval.high == pytest.approx(2.0)


def test_simultaneous_level() -> None:
    assert stats.simultaneous_level(1) == pytest.approx(0.95)
    assert stats.simultaneous_level(5) == pytest.approx(0.99)
    with pytest.raises(ValueError, match="at least one"):
        stats.simultaneous_level(0)
