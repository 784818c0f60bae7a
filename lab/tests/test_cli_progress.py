"""The line a cell leaves in a log."""

from __future__ import annotations

import io

import pytest

from pqlab.progress import PlainReporter, RichReporter, cell_line, clock_text

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


def test_nothing_is_made_up_for_a_cell_that_failed() -> None:
    record = {**RECORD, "verdict": "fail", "reason": "no handshake completed", "categories": {}}
    assert cell_line(0, 3, record, None) == (
        "[1/3] cs-mlkem768-aesgcm-mldsa65 rep 1  fail  (no handshake completed)"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00"), (59.6, "01:00"), (3599, "59:59"), (3725, "1:02:05")]
)
def test_clock_text(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_log_and_terminal_say_the_same() -> None:
    said = []
    for kind in (PlainReporter, RichReporter):
        stream = io.StringIO()
        reporter = kind(stream)
        reporter.begin(1, 0)
        reporter.cell_begins(0, "cs-mlkem768-aesgcm-mldsa65", 1, 1)
        reporter.cell_ends(0, RECORD, 0.0)
        reporter.note("warning: [brackets] stay")
        reporter.end()
        said.append(" ".join(stream.getvalue().split()))
    assert "warning: [brackets] stay" in said[0]
    for text in said:
        assert "hs 1.21 ms 2 lost" in text
        assert "warning: [brackets] stay" in text
