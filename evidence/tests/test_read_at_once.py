"""What is read as columns, or all lines at once, is what a reader of one line at a time finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pqevidence.errors import LabError
from pqevidence.record import ledger, raw

FRESH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
#: lines that a careless joining of lines would read otherwise than each by itself
LINES = [
    b'{"a": 1}',
    b'{"a": 1, "a": 2}',
    b'{"a": {"b": 2}}',
    b'{"a": [1, 2]}',
    b'{"a": "}\\n{"}',
    b'{"a": 1},{"b": 2}',
    b'{"a": 1} {"b": 2}',
    b'{"a": {"b": 1}',
    b'"c": 2}',
    b'{"a": "}',
    b'{"}',
    b'{"a": NaN}',
    b'{"a": 1}\r',
    b' {"a": 1}',
    b'\xef\xbb\xbf{"a": 1}',
    b'{"a": "\xff"}',
    b"[1]",
    b"]",
    b"[",
    b"",
    b"null",
    b'{"a": ' + b"9" * 5000 + b"}",
]
SPAN: dict[str, Any] = {
    "host": "drone",
    "handshake_id": "h",
    "mode": "cold",
    "suite_id": "s",
    "step": "kem",
    "kind": "crypto",
    "start_ns": 1,
    "end_ns": 2,
    "size_bytes": None,
    "keygen": "fresh",
    "cpu_ns": 3,
    "index": 4,
}
ROWS = [
    b"tx,0,1,100,10,20,traffic",
    b"rx,0,1,100,10,20,traffic",
    b"rx,1,2,100,30,40,bulk-600",
    b"up,0,1,100,10,20,traffic",
    b"tx,0,1,100,10,20",
    b"tx,0,1,100,10,20,a,b",
    b"tx,0,1,100,10,20,traffic,tx,0,2,100,30,40,traffic",
    b"tx,-1,1,100,10,20,traffic",
    b"tx,0,1,100,10," + str(1 << 62).encode() + b",traffic",
    b"tx,0,1_0,100,10,20,traffic",
    b"tx,0,x,100,10,20,traffic",
    b"tx,0,1,100,10,20,traffic\r",
    b'tx,0,1,100,10,20,"traffic"',
    b'tx,0,1,100,10,20,"traf\nfic"',
    b"tx,0,,100,10,20,traffic",
    b"tx,0,1,100,10,20,traf\xc3\xbc",
    b"tx,007,1,100,10,20,-1",
    b"tx,0,1,100,10,20,-1,2,100,30,40,traffic",
    b"tx,0,1,100,10,20,-2,2,100,30,40,traffic",
    b"tx,0,1,100,10,20,true,2,100,30,40,traffic",
    b"tx,0,1,100,10.0,20,traffic",
    b"tx,0,1,100,1e1,20,traffic",
    b"tx,0,1,100,null,20,traffic",
    b"tx,0, 1,100,10,20,traffic",
    b"tx,0,1,100,[],20,traffic",
    b"tx,0,1,100,10,9223372036854775808,traffic",
    b"tx,0,1,100,10," + str((1 << 62) - 1).encode() + b",traffic",
    b"tx,0,1,100,10,20,9",
    b"rx,0,-0,100,10,20,traffic",
    b"rx,0,08,100,10,20,",
    b"tx,\xb2,1,100,10,20,traffic",
    b"tx,0,traffic",
    b"",
    b",,,,,,",
]


def told(read: Callable[[], object]) -> str:
    """What it gives, or how it refuses; numbers that are not equal to themselves as their text."""
    try:
        return repr(read())
    except (LabError, ledger.LedgerError) as error:
        return f"{type(error).__name__}: {error}"


def joined(lines: list[bytes], end: bytes) -> bytes:
    return b"\n".join(lines) + end


@FRESH
@example([b'{"a": [{"b": 1}', b'{"c": 2}]}', b'{"d": 1},{"e": 2}'], b"\n")
@given(st.lists(st.sampled_from(LINES), max_size=5), st.sampled_from([b"\n", b"", b"\n\n"]))
def test_lines_of_json(tmp_path: Path, lines: list[bytes], end: bytes) -> None:
    path = tmp_path / "x.ndjson"
    path.write_bytes(joined(lines, end))
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(raw, "_MOST_AT_ONCE_BYTES", -1)
        expected = told(lambda: raw.read_ndjson(path))
    assert told(lambda: raw.read_ndjson(path)) == expected


@FRESH
@given(
    st.sampled_from([*SPAN, "involuntary", "scheduling_reason", "unknown"]),
    st.sampled_from([None, 5, -1, True, 1.5, "7", "x", {}, {"a": 1}]),
    st.booleans(),
)
def test_spans(tmp_path: Path, field: str, value: Any, missing: bool) -> None:
    rows = [{k: v for k, v in {**SPAN, field: value}.items() if not (missing and k == field)}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw, "_plain_spans", lambda _: None)
        patch.setattr(raw, "read_ndjson", lambda _: rows)
        got = told(lambda: raw.read_spans(tmp_path / "spans.ndjson"))
        patch.setattr(raw, "_as_written", lambda _: False)
        assert got == told(lambda: raw.read_spans(tmp_path / "spans.ndjson"))


#: parts of a line of spans; the first of each is what a writer leaves
HEADS = [
    '{"host":"drone","handshake_id":"h","index":0,"mode":"cold","purpose":"new","suite_id":"s"',
    '{"host":"gcs","handshake_id":"h","index":1,"mode":"redial","purpose":"new","keygen":"fresh","suite_id":"s"',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","host":"drone"',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","size_bytes":4',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","step":"a"',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","x":{"step":"a"}',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","x":{"y":1',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"\\",\\"step\\":\\""',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","x":"',
    '{"host":"gcs","handshake_id":"h","mode":"cold","suite_id":"s","x":[',
    '{"host":"g\u00fc","handshake_id":"h","mode":"cold","suite_id":"s"',
    '{"host":1,"handshake_id":"h","mode":"cold","suite_id":"s"',
    '{"mode":"cold"',
    "{",
    "",
]
STEPS = ['"hello"', '"he,llo"', '"he\\u006clo"', '"h\u00e9"', '"a\tb"', "null", "5", '"a', '""', '"a":"b"']
NUMBERS = [
    *("1", "0", "-0", "-5", "007", "1.0", "1e3", "NaN", "Infinity", "true", "null", "+1", "1_0", "[1]", "{}"),
    *("99999999999999999999", "1,2", "1 ", " 1", "", "\t1", "1\r", "9" * 5000),
]
TAILS = [
    '"clock":"monotonic","kind":"io"}',
    '"clock":"monotonic","kind":"crypto","size_bytes":9,"cpu_ns":7}',
    '"kind":"wall","cpu_ns":1,"runqueue_ns":2,"involuntary":null,"scheduling_reason":"no"}',
    '"kind":"io","kind":"wall"}',
    '"kind":"io","end_ns":5}',
    '"kind":"io","host":"gcs"}',
    '"kind":"io","x":{"y":1}}',
    '"kind":"io","x":[{"y":1}]}',
    '"kind":"io"}}',
    '"kind":"io"} ',
    '"kind":"io"}\r',
    '"kind":["io"]}',
    '"kind":NaN}',
    '"kind":"io","size_bytes":true}',
    '"clock":"}\n{"}',
    "}",
    "",
]


def mostly(parts: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(parts[0]), st.just(parts[1]), st.sampled_from(parts))


SPANS = st.builds(
    '{},"step":{},"start_ns":{},"end_ns":{},{}'.format,
    mostly(HEADS),
    mostly(STEPS),
    mostly(NUMBERS),
    mostly(NUMBERS),
    mostly(TAILS),
)


@settings(FRESH, max_examples=400)
@given(st.lists(SPANS, max_size=4), st.sampled_from(["\n", "\n", "", "\n\n"]))
def test_spans_as_a_writer_leaves_them(tmp_path: Path, lines: list[str], end: str) -> None:
    path = tmp_path / "spans.ndjson"
    path.write_bytes(("\n".join(lines) + end).encode())
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(raw, "_MOST_AT_ONCE_BYTES", -1)
        expected = told(lambda: raw.read_spans(path))
    assert told(lambda: raw.read_spans(path)) == expected


@settings(FRESH, max_examples=400)
@given(st.lists(st.sampled_from(ROWS), max_size=5), st.booleans(), st.sampled_from([1, 40, 1 << 20]))
def test_ledgers(tmp_path: Path, rows: list[bytes], ended: bool, stretch: int) -> None:
    path = tmp_path / "ledger.csv"
    path.write_bytes(joined([",".join(ledger.HEADER).encode(), *rows], b"\n" if ended else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_STRETCH_BYTES", stretch)
        got = told(lambda: ledger.read_ledger(path))
    assert got == told(lambda: ledger._read_rows(path))


def test_good_files_are_read_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above compare the slow way with itself."""
    rows = tmp_path / "ledger.csv"
    rows.write_bytes(joined([",".join(ledger.HEADER).encode(), *ROWS[:3]], b"\n"))
    monkeypatch.setattr(ledger, "_read_rows", lambda _: pytest.fail("row by row"))
    assert ledger.read_ledger(rows).rx.key == [1, 1 << ledger.EPOCH_SHIFT | 2]
    assert raw._rows_at_once(joined(LINES[:3], b"\n")) == [{"a": 1}, {"a": 2}, {"a": {"b": 2}}]
    assert raw._as_written([tuple(map(SPAN.get, raw._NAMES))])
    spans = tmp_path / "spans.ndjson"
    spans.write_text(f'{HEADS[1]},"step":"a","start_ns":5,"end_ns":-7,{TAILS[2]}\n', encoding="utf-8")
    monkeypatch.setattr(raw, "read_ndjson", lambda _: pytest.fail("as objects"))
    due = ("gcs", "h", "redial", "s", "a", "wall", 5, -7, None, "fresh", 1, 2, None, "no", 1)
    assert raw.read_spans(spans) == [due]
