"""Order statistics and RFC 3550 jitter."""

from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from pqevidence.record.stats import few, jitter, mean, median

NUMBERS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


def test_nothing_is_none_and_not_zero() -> None:
    assert median([]) is None and mean([]) is None


@given(NUMBERS)
def test_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == statistics.median(values)


def test_a_tail_says_why_it_is_absent() -> None:
    assert few([1.0] * 19, 0.95, "nothing") == "n too small: 19 of 20"
    assert few([1.0] * 20, 0.99, "nothing") == "n too small: 20 of 100"
    assert few([], 0.95, "nothing") == "nothing"


def test_jitter_of_constant_transit_is_zero() -> None:
    assert jitter([500] * 5) == [0.0] * 4


def test_jitter_follows_rfc_3550() -> None:
    # transits 0, 16, 16, 0: D = 16, 0, 16; J = 1, 1 - 1/16, then + (16 - J)/16
    first, second, third = jitter([0, 16, 16, 0])
    assert first == 1.0
    assert second == 0.9375
    assert third == 0.9375 + (16 - 0.9375) / 16
