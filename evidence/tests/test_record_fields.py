"""The catalogue of fields: complete against the published schema, units in names, sheet that cannot drift."""

from __future__ import annotations

import pytest

from pqevidence import semantics
from pqevidence.record import catalogue
from pqevidence.record.sheet import LETTERS, Sheet

#: fields of the published schema by letter (metrics of `pqc-mav-2026-02`)
COUNTS = (20, 8, 5, 7, 15, 7, 23, 12, 15, 2, 9, 10, 7, 11, 11, 8, 5, 6)
PUBLISHED = dict(zip("ABCDEFGHIJKLMNOPQR", COUNTS, strict=True))
SUFFIX = {
    "ms": "_ms", "ns": "_ns", "s": "_s", "%": "_pct", "B": "_bytes", "W": "_w", "V": "_v", "A": "_a",
    "J": "_j", "ratio": "_ratio", "count": "_count", "MB": "_mb", "MHz": "_mhz", "Mbit/s": "_mbps",
    "°C": "_c",
}  # fmt: skip


def test_letters_are_a_to_t() -> None:
    assert "".join(catalogue()) == LETTERS


@pytest.mark.parametrize("letter", PUBLISHED)
def test_every_published_name_is_answered_once(letter: str) -> None:
    names = [name for spec in catalogue()[letter].fields.values() for name in spec.published]
    assert len(names) == len(set(names)) == PUBLISHED[letter]


def test_names_end_in_their_unit() -> None:
    odd = [
        f"{spec.letter}.{spec.name}"
        for category in catalogue().values()
        for spec in category.fields.values()
        if spec.unit in SUFFIX and not spec.name.endswith(SUFFIX[spec.unit])
    ]
    assert odd == []


def test_every_field_says_what_it_is() -> None:
    for category in catalogue().values():
        for spec in category.fields.values():
            assert len(spec.description) > 3 and spec.source and spec.unit


def test_the_document_is_that_of_the_catalogue() -> None:
    text = semantics.path().read_text(encoding="utf-8")
    assert text == semantics.markdown(), "write it again: python -m pqevidence.semantics"


def test_sheet_refuses_unknown_double_and_unset_fields() -> None:
    sheet = Sheet()
    with pytest.raises(KeyError):
        sheet.put("A", "no_such_field", 1)
    sheet.put("A", "run_id", "x")
    with pytest.raises(KeyError, match="twice"):
        sheet.put("A", "run_id", "y")
    with pytest.raises(KeyError, match="not set"):
        sheet.categories()


def test_missing_is_null_with_a_reason_and_never_zero() -> None:
    sheet = Sheet()
    sheet.put("P", "power_mean_w", None, absent="no sensor", n=10)
    sheet.put("P", "power_peak_w", float("nan"), absent="no sensor")
    sheet.null_rest("P", "no sensor")
    for letter in LETTERS.replace("P", ""):
        sheet.null_rest(letter, "not of this test")
    fields = sheet.categories()["P"]
    assert {field["value"] for field in fields.values()} == {None}
    assert {field["reason"] for field in fields.values()} == {"no sensor"}
    assert {field["n"] for field in fields.values()} == {None}
