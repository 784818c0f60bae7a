"""Order statistics and RFC 3550 jitter."""

from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from pqlab.record.stats import jitter, mean, median, percentile

NUMBERS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


def test_nothing_is_none_and_not_zero() -> None:
    assert median([]) is None and percentile([], 95) is None and mean([]) is None


@given(NUMBERS)
def test_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == statistics.median(values)


@given(NUMBERS, st.floats(0, 100))
def test_percentile_is_an_observed_value_with_enough_below(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    at_most = sum(value <= found for value in values)
    assert 100 * at_most / len(values) >= percent - 1e-9


def test_nearest_rank_of_known_values() -> None:
    values = [float(n) for n in range(1, 21)]
    assert percentile(values, 95) == 19.0
    assert percentile(values, 100) == 20.0
    assert percentile(values, 0) == 1.0


def test_jitter_of_constant_transit_is_zero() -> None:
    assert jitter([500] * 5) == [0.0] * 4


def test_jitter_follows_rfc_3550() -> None:
    # transits 0, 16, 16, 0: D = 16, 0, 16; J = 1, 1 - 1/16, then + (16 - J)/16
    first, second, third = jitter([0, 16, 16, 0])
    assert first == 1.0
    assert second == 0.9375
    assert third == 0.9375 + (16 - 0.9375) / 16
