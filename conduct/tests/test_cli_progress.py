"""The line a cell leaves in a log."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from pqevidence.plan import Cell
from pqlab.progress import (
    Board,
    PlainReporter,
    RichReporter,
    again_line,
    begin_line,
    cell_line,
    clock_text,
    hottest_c,
)

RECORD = {
    "suite_id": "cs-mlkem768-aesgcm-mldsa65",
    "repetition": 1,
    "verdict": "pass",
    "reason": None,
    "categories": {
        "D": {"handshake_total_duration_ms": {"value": 1.2149}},
        "G": {"packets_sent_count": {"value": 1600}, "packets_received_count": {"value": 1598}},
    },
}


def test_the_line() -> None:
    line = cell_line(11, 72, RECORD, 252.0)
    assert line == "[12/72] cs-mlkem768-aesgcm-mldsa65 rep 1  pass  hs 1.21 ms  2 lost  eta 04:12"


def test_a_simulated_handshake_says_so() -> None:
    line = cell_line(11, 72, {**RECORD, "ring": "sim"}, None)
    assert line.endswith("hs 1.21 ms synthetic  2 lost")


def test_nothing_is_made_up_for_a_cell_that_failed() -> None:
    record = {**RECORD, "verdict": "fail", "reason": "no handshake completed", "categories": {}}
    assert cell_line(0, 3, record, None) == (
        "[1/3] cs-mlkem768-aesgcm-mldsa65 rep 1  fail  (no handshake completed)"
    )


def test_no_line_is_wider_than_a_terminal() -> None:
    long = {
        **RECORD,
        "suite_id": "cs-classicmceliece8192128-chacha20poly1305-sphincs256s",
        "condition": "slow-lossy-near",
        "reason": "busy_machine: other programs used 69 % of a core (limit 10 %) while it was measured",
    }
    line = cell_line(11, 216, long, 252.0)
    assert max(map(len, line.splitlines())) <= 80
    head, *more = line.splitlines()
    assert head == f"[ 12/216] {long['suite_id']}"
    assert all(one.startswith(" " * 10) for one in more)
    told = " ".join(line.split())
    assert "pass hs 1.21 ms 2 lost (busy_machine:" in told and "measured) eta 04:12" in told
    cell = replace(CELL, suite_id=long["suite_id"])
    again = again_line(cell, 216, 2, str(long["reason"]))
    assert max(map(len, again.splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00"), (59.6, "01:00"), (3599, "59:59"), (3725, "1:02:05")]
)
def test_clock_text(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


CELL = Cell("00" * 8, "cs-mlkem768-aesgcm-mldsa65", "rekey", 1, 0, 0, 1)


def test_log_and_terminal_say_the_same() -> None:
    said = []
    for kind in (PlainReporter, RichReporter):
        stream = io.StringIO()
        reporter = kind(stream)
        reporter.begin(1, 0, 3640.0)
        reporter.cell_begins(CELL, 1)
        reporter.cell_ends(0, RECORD, 0.0)
        reporter.note("warning: [brackets] stay")
        reporter.end()
        said.append(" ".join(stream.getvalue().split()))
    assert said[0].startswith("1 cell, about 1:00:40 "), "a cell may take an hour: a log begins before it"
    assert "warning: [brackets] stay" in said[0]
    for text in said:
        assert "1 cell, about 1:00:40" in text
        assert "hs 1.21 ms 2 lost" in text
        assert "warning: [brackets] stay" in text


def test_a_cell_that_is_measured_again_says_why_when_it_begins() -> None:
    for kind in (PlainReporter, RichReporter):
        stream = io.StringIO()
        reporter = kind(stream)
        reporter.begin(12, 0, None)
        reporter.cell_begins(CELL, 1)
        reporter.cell_begins(CELL, 2, "rate 12 % off")
        reporter.cell_begins(CELL, 3)
        reporter.end()
        text = " ".join(stream.getvalue().split())
        again = "[ 1/12] cs-mlkem768-aesgcm-mldsa65 rekey rep 1: attempt"
        assert f"{again} 2, because rate 12 % off" in text
        assert f"{again} 3" in text
        assert f"{again} 1" not in text


def test_no_colour_is_asked_for_by_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def told() -> str:
        stream = Terminal()
        reporter = RichReporter(stream)
        reporter.begin(1, 0, None)
        reporter.cell_ends(0, RECORD, 0.0)
        reporter.end()
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in told()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in told()


@pytest.mark.parametrize(
    ("total", "done", "eta_s", "line"),
    [
        (72, 0, 730.0, "72 cells, about 12:10"),
        (72, 5, 680.0, "5 of 72 cells are done already, about 11:20 left"),
        (72, 72, 0.0, "72 of 72 cells are done already"),
        (2, 0, None, "2 cells"),
    ],
)
def test_the_first_line(total: int, done: int, eta_s: float | None, line: str) -> None:
    assert begin_line(total, done, eta_s) == line


def test_condition_heat_and_lost_samples_stand_where_there_are_any() -> None:
    fields = {
        **RECORD["categories"],  # type: ignore[dict-item]
        "N": {"temperature_c": {"value": 48.24}},
        "O": {"temperature_c": {"value": None}},
        "R": {"lost_samples_count": {"value": 3}},
    }
    line = cell_line(0, 9, {**RECORD, "condition": "rekey", "categories": fields}, None)
    assert "mldsa65 rekey rep 1" in line
    assert "48.2 °C 3 samples lost" in " ".join(line.split())
    assert hottest_c(RECORD) is None


def test_the_board_counts_down_between_cells_and_keeps_the_sum() -> None:
    now = [100.0]
    board = Board(lambda: now[0])
    board.begin(4, 0, None)
    board.now = "cs-mlkem768-aesgcm-mldsa65 rekey rep 1"

    def drawn() -> list[str]:
        console = Console(file=io.StringIO(), width=78)
        console.print(board)
        file = console.file
        assert isinstance(file, io.StringIO)
        return [" ".join(line.split()) for line in file.getvalue().splitlines()]

    first = drawn()
    assert len(first) == 3
    assert first[0].startswith("0/4") and first[0].endswith("left unknown")
    board.begin(4, 0, 100.0)
    now[0] += 30.0
    assert drawn()[0].endswith("left 01:10"), "it counts down within the first cell"
    assert first[2] == "no cell yet · no temperature · 0 samples lost"
    lost = {**RECORD["categories"], "R": {"lost_samples_count": {"value": 2}}}  # type: ignore[dict-item]
    board.finished({**RECORD, "categories": lost}, 90.0)
    board.finished({**RECORD, "verdict": "fail", "categories": lost}, 60.0)
    now[0] += 13.0
    second = drawn()
    assert second[0].startswith("2/4") and "50%" in second[0] and second[0].endswith("left 00:47")
    assert second[1] == "now cs-mlkem768-aesgcm-mldsa65 rekey rep 1"
    assert second[2] == "last fail · 1 fail 1 pass · no temperature · 4 samples lost"
