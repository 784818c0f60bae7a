"""UTC and JSON as they are written everywhere."""

from __future__ import annotations

from datetime import datetime

from hypothesis import example, given
from hypothesis import strategies as st

from pqbase.text import canonical_json, utc_basic, utc_page, utc_text, utc_text_ms

T_NS = 1_767_323_045_678_901_234
NANOSECONDS = st.integers(0, 4_000_000_000 * 10**9)


def test_one_moment_in_each_form() -> None:
    assert utc_text(T_NS) == "2026-01-02T03:04:05Z"
    assert utc_text_ms(T_NS) == "2026-01-02T03:04:05.678Z"
    assert utc_basic(T_NS) == "20260102T030405Z"
    assert utc_page(T_NS) == "2026-01-02 03:04:05"


@given(NANOSECONDS)
@example(1_700_000_000_999_999_999)
def test_no_second_is_rounded_up(t_ns: int) -> None:
    assert datetime.fromisoformat(utc_text(t_ns)).timestamp() == t_ns // 10**9


def test_equal_values_have_one_spelling() -> None:
    assert canonical_json({"b": 1, "a": [1.5, None, "é"]}) == rb'{"a":[1.5,null,"\u00e9"],"b":1}'
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})
