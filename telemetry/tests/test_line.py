"""Encoder and parser against each other, and against lines written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtelemetry import parse
from pqtelemetry.errors import EncodeError, ParseError
from pqtelemetry.line import INT_MAX, INT_MIN, Sample, encode, plain_text, series_key, tag_text
from pqtelemetry.parse import (
    _LAYOUTS,
    _MOST_LAYOUTS,
    Point,
    _parse_escaped,
    _parse_simple,
    parse_line,
    parse_lines,
)

printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
text_values = st.text(printable, max_size=20)
names = (
    st.text(printable, min_size=1, max_size=12)
    .filter(lambda text: "\\" not in text and '"' not in text and text != "time")
    .filter(lambda text: not text.startswith("#"))
)
field_values = st.one_of(
    st.integers(INT_MIN, INT_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    text_values,
)
samples = st.builds(
    Sample,
    names,
    st.dictionaries(names, field_values, min_size=1, max_size=6),
    st.dictionaries(names, names, max_size=4).map(lambda tags: tuple(tags.items())),
)


@given(samples, st.integers(0, INT_MAX))
def test_what_is_encoded_is_parsed_back_with_value_and_type(sample: Sample, time_ns: int) -> None:
    line = encode(sample, time_ns)
    assert "\n" not in line
    point = parse_line(line)
    assert point.measurement == sample.measurement
    assert point.tags == tuple(sorted(sample.tags))
    assert point.fields == dict(sample.fields)
    assert [type(value) for value in point.fields.values()] == [type(v) for v in sample.fields.values()]
    assert point.time_ns == time_ns
    assert point.series == series_key(sample.measurement, sample.tags)
    assert encode(Sample(point.measurement, point.fields, point.tags), point.time_ns) == line


@given(samples, st.integers(0, INT_MAX), st.data())
def test_a_cut_line_never_reads_as_another_point(sample: Sample, time_ns: int, data: st.DataObject) -> None:
    line = encode(sample, time_ns)
    cut = data.draw(st.integers(0, len(line) - 1))
    try:
        point = parse_line(line[:cut])
    except ParseError:
        return
    # Only a shorter timestamp can still be a line; its fields are whole.
    assert point.fields == dict(sample.fields)
    assert str(time_ns).startswith(str(point.time_ns))


def outcome(parse: Callable[[str], Point], text: str) -> Point | None:
    try:
        return parse(text)
    except ParseError:
        return None


@given(samples, st.integers(0, INT_MAX), st.data())
def test_the_fast_path_is_the_same_grammar(sample: Sample, time_ns: int, data: st.DataObject) -> None:
    line = encode(sample, time_ns).replace("\\", "")
    where = data.draw(st.integers(0, len(line)))
    damaged = line[:where] + data.draw(st.sampled_from([*' ,="i1.-x\t', ""])) + line[where + 1 :]
    for text in (line, damaged, line, damaged.replace("1", "9")):
        assert outcome(_parse_simple, text) == outcome(_parse_escaped, text)


LAID_OUT = [
    "m,host=a f=2i,g=0.5 9223372036854775807",
    "m,host=a f=2i,g=0.5 9223372036854775808",
    "m,host=a f=8999999999999999999i,g=0.5 1",
    "m,host=a f=9223372036854775808i,g=0.5 1",
    "m,host=a f=-2i,g=-0.5 1",
    "m,host=a f=2i,g=1e999 1",
    "m,host=a f=2i,g=5 1",
    "m,host=a f=2.5,g=5i 1",
    "m,host=a f=2i 1",
    "m,host=a g=0.5,f=2i 1",
    "m,host=a f=2i,g=0.5,h=1 1",
    "m,host=a f=2=2i,g=0.5 1",
    "m,host=a f=\u0662i,g=0.5 1",
    "m,host=a  f=2i,g=0.5 1",
    "m,host=a f=2i,g=0.5 1\n",
    'm,host=a f="2i",g=0.5 1',
]


@pytest.mark.parametrize("text", LAID_OUT)
def test_a_line_laid_out_as_one_before_it_is_read_by_the_same_grammar(text: str) -> None:
    _LAYOUTS.clear()
    before = "m,host=a f=1i,g=0.25 1"
    assert _parse_simple(before) == _parse_escaped(before)
    assert "m,host=a" in _LAYOUTS
    assert outcome(_parse_simple, text) == outcome(_parse_escaped, text)


GOOD = ["m,host=a f=2i,g=0.5 7", "m,host=a f=3i,g=-0.0 8", "m,host=b f=3i,g=0.5 8", "n h=1i 9"]


def outcome_of_all(parse: Callable[[list[str]], list[Point]], lines: list[str]) -> str:
    """Points in their order, or the first error; zeros as they are written."""
    _LAYOUTS.clear()
    for line in GOOD[1:]:
        parse_line(line)
    try:
        return repr(parse(lines))
    except ParseError as error:
        return f"{error} {error.column}"


ODD = [*LAID_OUT, "\n".join(GOOD[:2]), "m,host=a f=2i\\ ,g=0.5 7", "m,host=a", "", "n h=1 9"]


@given(st.lists(st.sampled_from([*3 * GOOD, *ODD]), max_size=8))
def test_many_lines_in_one_go_are_read_as_each_by_itself(lines: list[str]) -> None:
    each = outcome_of_all(lambda every: [parse_line(line) for line in every], lines)
    assert outcome_of_all(parse_lines, lines) == each


def test_lines_of_a_known_layout_are_read_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above compares one way with itself."""
    due = [parse_line(line) for line in GOOD]
    monkeypatch.setattr(parse, "parse_line", lambda _: pytest.fail("one by one"))
    assert parse_lines(GOOD) == due


def test_ever_new_layouts_are_not_kept_without_end() -> None:
    for number in range(2 * _MOST_LAYOUTS):
        assert _parse_simple(f"m{number} f{number}=1i 1").fields == {f"f{number}": 1}
    assert len(_LAYOUTS) <= _MOST_LAYOUTS


@given(st.text(max_size=40))
def test_any_text_is_a_point_or_a_parse_error(text: str) -> None:
    try:
        point = parse_line(text)
    except ParseError:
        return
    assert parse_line(encode(Sample(point.measurement, point.fields, point.tags), point.time_ns)) == point


def test_line_by_hand() -> None:
    sample = Sample(
        "pq cpu,x",
        {"a=b": 1, "c d": -2.5, "e,f": 'say "hi" \\ there', "ok": True, "no": False},
        (("zone", "a b=c,d"), ("host", "drone")),
    )
    assert encode(sample, 17) == (
        r"pq\ cpu\,x,host=drone,zone=a\ b\=c\,d "
        r'a\=b=1i,c\ d=-2.5,e\,f="say \"hi\" \\ there",ok=true,no=false 17'
    )


@pytest.mark.parametrize(
    "sample",
    [
        Sample("m", {}),
        Sample("", {"f": 1}),
        Sample("#m", {"f": 1}),
        Sample("m\n", {"f": 1}),
        Sample("m\\", {"f": 1}),
        Sample("m", {"time": 1}),
        Sample("m", {"f\t": 1}),
        Sample("m", {"f": math.nan}),
        Sample("m", {"f": math.inf}),
        Sample("m", {"f": INT_MAX + 1}),
        Sample("m", {"f": "two\nlines"}),
        Sample("m", {"f": 1}, (("tag", ""),)),
        Sample("m", {"f": 1}, (("", "value"),)),
        Sample("m", {"f": 1}, (("tag", "a"), ("tag", "b"))),
        Sample("m", {"f": 1}, (("tag", "trailing\\"),)),
        Sample("m", {"f": 1}, (("tag", 'q"uote'),)),
    ],
)
def test_what_line_protocol_cannot_carry_is_refused(sample: Sample) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(sample, 1)
    assert caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "",
        "m",
        "m f=1",  # no time: a reader that invents one moves the sample
        "m f=1i 1.5",
        "m f=1i 1s",
        "m f=1i 9223372036854775808",
        "m f=1i -9223372036854775808",  # the encoder writes none so early
        "m  f=1i 1",
        "m f=1i 1 ",
        "m f= 1",
        "m f 1",
        "m =1 1",
        "m f=1i,f=2i 1",
        "m f=1u 1",
        "m f=nan 1",
        "m f=inf 1",
        "m f=1e999 1",
        "m f=.5 1",
        "m f=t 1",
        "m f=9223372036854775808i 1",
        'm f="open 1',
        'm f="a"b 1',
        'm f="a\\n" 1',
        "m,host f=1 1",
        "m,host= f=1 1",
        "m,=a f=1 1",
        "m,a=1,a=2 f=1 1",
        'm"x" f=1 1',
        'm,a="x" f=1 1',
        'm "f"=1 1',
        "#m f=1 1",
        "m time=1 1",
        "m,time=1 f=1 1",
        "m f=1, 1",
        'm f="a", 1',
        "m\\ f=1 1",
        "m,a=b\\ f=1 1",
        "m\\x f=1 1",
        "m f=1 1\nm f=2 2",
    ],
)
def test_lines_that_are_not_canonical_are_refused(line: str) -> None:
    with pytest.raises(ParseError):
        parse_line(line)


@given(st.text(max_size=30))
def test_names_of_the_host_become_safe_tags(text: str) -> None:
    line = encode(Sample("m", {"f": plain_text(text)}, (("zone", tag_text(text)),)), 1)
    assert parse_line(line).fields["f"] == plain_text(text)
