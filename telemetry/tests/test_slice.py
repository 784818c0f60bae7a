"""Reading telemetry back: slices, aggregates, increases; nothing in gives nothing out."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtelemetry.errors import ParseError
from pqtelemetry.line import Sample, encode
from pqtelemetry.slice import aggregate, increase, line_time_ns, slice_lines, summarise, values

LINES = [
    encode(
        Sample("pq_cpu", {"system_pct": float(k), "system_busy_ms": 100 * k}, (("host", "drone"),)), k * 10
    )
    for k in range(1, 11)
] + [encode(Sample("pq_cpu", {"steal_pct": 99.0}, (("host", "gcs"),)), 55)]


def test_slice_is_half_open_and_takes_newlines() -> None:
    assert [line_time_ns(line) for line in slice_lines([line + "\n" for line in LINES], 30, 60)] == [
        30,
        40,
        50,
        55,
    ]


def test_values_only_where_the_field_is() -> None:
    assert values(LINES, "pq_cpu", "steal_pct") == [(55, 99.0)]
    assert values(LINES, "pq_cpu", "steal_pct", tags={"host": "drone"}) == []
    assert values(LINES, "pq_mem", "rss_bytes") == []
    assert values(LINES, "pq_cp", "system_pct") == []


def test_aggregate_over_a_span() -> None:
    found = aggregate(LINES, "pq_cpu", "system_pct", start_ns=10, end_ns=60)
    assert found is not None
    assert (found.n, found.mean, found.median, found.min, found.max) == (5, 3.0, 3.0, 1.0, 5.0)
    assert found.p95 is None  # five values carry no tail


def test_nothing_is_none_not_zero() -> None:
    assert aggregate(LINES, "pq_temp", "temperature_c") is None
    assert aggregate(LINES, "pq_cpu", "system_pct", start_ns=1000) is None
    assert increase(LINES, "pq_cpu", "system_busy_ms", end_ns=15) is None


def test_increase_of_a_counter_and_after_its_reset() -> None:
    found = increase(LINES, "pq_cpu", "system_busy_ms")
    assert found is not None
    assert (found.amount, found.span_ns, found.n) == (900, 90, 10)
    assert found.per_s == pytest.approx(900 / 90e-9)
    reset = [*LINES[:5], encode(Sample("pq_cpu", {"system_busy_ms": 1}), 200)]
    assert increase(reset, "pq_cpu", "system_busy_ms") is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_summary_agrees_with_the_standard_library(numbers: list[float]) -> None:
    found = summarise(numbers)
    assert found is not None
    assert found.median == pytest.approx(statistics.median(numbers))
    assert (found.p95 is None) == (len(numbers) < 20)
    if found.p95 is not None:
        assert found.p95 == pytest.approx(statistics.quantiles(numbers, n=20, method="inclusive")[18])
    assert found.mean == pytest.approx(statistics.fmean(numbers), abs=1e-6)


@pytest.mark.parametrize("line", ["pq_cpu f=1", "pq_cpu", "pq_cpu f=1 x7"])
def test_a_line_without_a_time_is_an_error(line: str) -> None:
    with pytest.raises(ParseError):
        slice_lines([line], 0, 10)


def test_booleans_and_text_are_no_numbers() -> None:
    lines = [encode(Sample("pq_sensor", {"available": False, "reason": "none"}), 1)]
    assert values(lines, "pq_sensor", "available") == []
    assert values(lines, "pq_sensor", "reason") == []
