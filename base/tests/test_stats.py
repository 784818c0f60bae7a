"""The one quantile: against the standard library, numpy where it is, and fixed values."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqbase.stats import least_count, quantile7, tail

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
VALUES = (3.1, 0.2, 9.5, 4.4, 4.4, 1.7, 12.25)
#: scipy 1.17.1, scipy.stats.mstats.mquantiles(VALUES, SHARES, alphap=1, betap=1): Hyndman and Fan type 7
FROM_SCIPY = (0.2, 0.65, 2.4, 4.4, 6.95, 10.6, 11.425, 12.085, 12.25)
NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=150)


def test_it_gives_what_scipy_gives() -> None:
    assert [quantile7(VALUES, share) for share in SHARES] == pytest.approx(FROM_SCIPY, abs=1e-12)


@given(NUMBERS)
def test_it_gives_what_the_standard_library_gives(values: list[float]) -> None:
    own = [quantile7(values, percent / 100) for percent in range(1, 100)]
    assert own == pytest.approx(statistics.quantiles(values, n=100, method="inclusive"), abs=1e-6)
    assert quantile7(values, 0.5) == statistics.median(values)


@given(NUMBERS, st.sampled_from(SHARES))
def test_it_gives_what_numpy_gives(values: list[float], share: float) -> None:
    numpy = pytest.importorskip("numpy")
    assert quantile7(values, share) == pytest.approx(float(numpy.quantile(values, share)), abs=1e-6)


def test_it_is_not_one_rank_high() -> None:
    assert quantile7(range(1, 101), 0.99) == pytest.approx(99.01)
    assert quantile7(range(1, 102), 0.99) == 100.0  # 99 of the other hundred lie below it


def test_a_tail_needs_one_value_beyond_it() -> None:
    assert [least_count(share) for share in (0.5, 0.75, 0.9, 0.95, 0.99, 0.05)] == [1, 1, 10, 20, 100, 20]
    assert tail(range(19), 0.95) is None and tail(range(99), 0.99) is None
    assert tail(range(20), 0.95) == pytest.approx(18.05)
    assert tail(range(100), 0.99) == pytest.approx(98.01)
    assert tail([], 0.5) is None


def test_a_share_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile7([1.0], 95)
