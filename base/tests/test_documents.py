"""Values read from a JSON object: their types, what stands for a missing one, what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pqbase.documents import (
    counts_of,
    exact_of,
    exact_or_none,
    number_of,
    number_or_none,
    part_of,
    part_or_none,
    parts_of,
    rows_of,
    text_of,
    text_or_none,
    texts_of,
    whole_of,
)

DOCUMENT = {
    "part": {"a": 1},
    "rows": [{"a": 1}, {}],
    "texts": ["x", 2],
    "whole": 7.9,
    "number": "2.5",
    "counts": {"pass": 3, "fail": "1"},
    "parts": {"x": {"a": 1}, "y": {}},
    "exact": 7,
    "text": "7",
    "null": None,
    "zero": 0,
}
READERS = (part_of, parts_of, rows_of, text_of, texts_of, whole_of, exact_of, number_of, counts_of)


def test_each_value_has_its_type() -> None:
    assert part_of(DOCUMENT, "part") is DOCUMENT["part"]
    assert rows_of(DOCUMENT, "rows") is DOCUMENT["rows"]
    assert texts_of(DOCUMENT, "texts") == ["x", "2"]
    assert parts_of(DOCUMENT, "parts") is DOCUMENT["parts"]
    assert (exact_of(DOCUMENT, "exact"), text_of(DOCUMENT, "text")) == (7, "7")
    assert (whole_of(DOCUMENT, "whole"), number_of(DOCUMENT, "number")) == (7, 2.5)
    assert counts_of(DOCUMENT, "counts") == {"pass": 3, "fail": 1}


def test_a_number_that_may_be_missing_stays_as_it_is() -> None:
    assert [number_or_none(DOCUMENT, name) for name in ("whole", "zero", "null", "absent")] == [
        7.9,
        0,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("read", "name", "wanted"),
    [(part_or_none, "part", {"a": 1}), (exact_or_none, "exact", 7), (text_or_none, "text", "7")],
)
def test_what_may_be_missing_is_none_and_nothing_else_is(
    read: Callable[..., object], name: str, wanted: object
) -> None:
    assert [read(DOCUMENT, each) for each in (name, "null", "absent")] == [wanted, None, None]
    with pytest.raises(TypeError, match="`rows` is list, not a"):
        read(DOCUMENT, "rows")


@pytest.mark.parametrize("name", ["whole", "text"])
def test_an_exact_number_is_neither_cut_off_nor_read_from_a_text(name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` is .*, not a whole number"):
        exact_of(DOCUMENT, name)


def test_an_object_of_something_else_is_no_object_of_objects() -> None:
    with pytest.raises(TypeError, match="`pass` is int, not an object"):
        parts_of(DOCUMENT, "counts")
    with pytest.raises(TypeError, match="`rows` is list, not an object of objects"):
        parts_of(DOCUMENT, "rows")


@pytest.mark.parametrize("name", ["null", "zero", "absent"])
def test_a_default_stands_for_what_is_missing_null_or_empty(name: str) -> None:
    assert part_of(DOCUMENT, name, {}) == {}
    assert rows_of(DOCUMENT, name, []) == []
    assert texts_of(DOCUMENT, name, ["y"]) == ["y"]
    assert whole_of(DOCUMENT, name, 3) == 3
    assert number_of(DOCUMENT, name, 0.5) == 0.5
    assert counts_of(DOCUMENT, name, {}) == {}


@pytest.mark.parametrize("read", READERS)
def test_without_a_default_a_missing_name_is_a_key_error(read: Callable[..., object]) -> None:
    with pytest.raises(KeyError, match="absent"):
        read(DOCUMENT, "absent")


@pytest.mark.parametrize("read", READERS)
def test_another_type_is_refused_by_name(read: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="`null` is NoneType, not a"):
        read(DOCUMENT, "null")


def test_a_list_of_something_else_is_no_list_of_objects() -> None:
    with pytest.raises(TypeError, match="`texts` is list, not a list of objects"):
        rows_of(DOCUMENT, "texts")
    with pytest.raises(TypeError, match="`texts` is list, not a number"):
        number_or_none(DOCUMENT, "texts")
