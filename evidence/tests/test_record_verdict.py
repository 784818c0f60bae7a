"""Every rule of the verdict, by breaking one thing at a time in evidence that passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.record.verdict import Direction, Evidence, decide

DOWN = Direction("traffic", "down", 1600, 1600, "aa", "aa", 1600, 1600)
UP = Direction("traffic", "up", 20, 20, "bb", "bb", 20, 20)
LADDER = Direction("bulk-600", "down", 1200, 1200, "cc", "cc", 1200, 1200)
GOOD = Evidence(
    completed=30,
    traced=30,
    coverage_pct={"drone": 99.0, "gcs": 100.0},
    directions=(DOWN, UP, LADDER),
    windows_due=("handshake_cold", "traffic"),
    windows_seen=("handshake_cold", "traffic"),
    sessions_s={"traffic": (5.0, 5.001)},
    samples={"drone": (70, 70), "gcs": (70, 69)},
)

PLAIN: dict[str, Any] = {
    "handshakes_due": False,
    "completed": 0,
    "traced": 0,
    "coverage_pct": {"drone": None, "gcs": None},
}

#: change to good evidence, verdict, name of the only finding
BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"errors": ("the drone is gone",)}, "fail", "error"),
    ({"missing": ("spans.ndjson",)}, "invalid", "raw_files"),
    ({"windows_seen": ("handshake_cold",)}, "invalid", "windows"),
    ({"completed": 0}, "fail", "handshake"),
    ({"completed": None}, "fail", "handshake"),
    ({"completed": 4}, "invalid", "handshake_count"),
    ({"failed": 1}, "fail", "handshake_failures"),
    ({"silence": "the drone heard nothing for 3 s"}, "fail", "silence"),
    ({"source": ("traffic, drone: ArduPilot left its hover",)}, "invalid", "traffic_source"),
    ({"traced": 4}, "invalid", "spans"),
    ({"coverage_pct": {"drone": 94.9, "gcs": 100.0}}, "invalid", "span_coverage_drone"),
    ({"coverage_pct": {"drone": 99.0, "gcs": 101.1}}, "invalid", "span_coverage_gcs"),
    ({"coverage_pct": {"drone": None}}, "invalid", "span_coverage_drone"),
    ({"duplicates": 1}, "fail", "duplicates"),
    ({"ghosts": 1}, "fail", "ghosts"),
    ({"resized": 1}, "fail", "resized"),
    ({"directions": (replace(DOWN, rx_count=1599, ledger_rx=1599),)}, "invalid", "counters"),
    ({"directions": (replace(UP, rx_count=21, ledger_rx=21),)}, "fail", "counters"),
    ({"directions": (replace(DOWN, digest_rx="ab"),)}, "fail", "digest"),
    ({"directions": (replace(LADDER, digest_rx="ab"),)}, "fail", "digest"),
    ({"directions": (replace(LADDER, rx_count=1201, ledger_rx=1201),)}, "fail", "counters"),
    ({"directions": (replace(DOWN, ledger_tx=1599),)}, "invalid", "ledger_counter"),
    ({"contract": ("traffic_rate: 1 Hz",)}, "invalid", "traffic_contract"),
    ({"sessions_s": {"traffic": (5.0, 4.9)}}, "invalid", "session"),
    ({"sessions_s": {"traffic": (5.0, 5.6)}}, "invalid", "session"),
    ({"sessions_s": {"traffic": (5.0, None)}}, "invalid", "session"),
    ({"samples": {"drone": (70, 66)}}, "invalid", "samples_drone"),
    ({"rekeys": 0}, "invalid", "rekey"),
    ({"pooled": 4, "pooled_due": 5}, "invalid", "pooled_handshakes"),
    ({**PLAIN, "completed": 1}, "fail", "handshake"),
    ({**PLAIN, "completed": None, "failed": 1}, "fail", "handshake"),
    ({**PLAIN, "traced": 1}, "fail", "handshake"),
    ({"planes": ("drone: native was expected, python ran",)}, "invalid", "dataplane"),
    ({"link": ("loss up: 9 % for 5 %",)}, "invalid", "link"),
    ({"attack": ("episode 1: nothing was sent",)}, "invalid", "attack"),
    ({"fleet": ("the farm ended early",)}, "invalid", "fleet"),
    ({"cycled": ("the power of the drone was cycled",)}, "invalid", "power_cycle"),
    ({"killed": ("container drone exited with 137",), "errors": ("it is gone",)}, "invalid", "killed"),
    ({"blind": ("no verdict on the traffic window (states told: none)",)}, "fail", "detector"),
    ({"detector": ("3 of 5 windows without a verdict",)}, "invalid", "detector"),
    ({"busy": ("of the median handshake 60 % of it, 0.9 ms, was waiting",)}, "invalid", "busy_machine"),
]
ALLOWED: list[dict[str, Any]] = [
    {"directions": (replace(LADDER, rx_count=900, ledger_rx=900, digest_rx="other"),)},
    {"completed": 5, "traced": 5},
    {"sessions_s": {"traffic": (5.0, 5.0 - 0.05)}},
    {"sessions_s": {"traffic": (5.0, 5.0 + 0.5)}},
    {"samples": {"drone": (70, 67)}},
    {"samples": {"drone": (10, 8)}},
    {"sessions_s": {"traffic": (110.0, 111.5)}},
    {"coverage_pct": {"drone": 95.0, "gcs": 101.0}},
    {"impaired": True, "directions": (replace(DOWN, rx_count=1500, ledger_rx=1500, digest_rx="other"),)},
    {"impaired": True, "failed": 3},
    {"impaired": True, "silence": "the drone heard nothing for 3 s"},
    {"rekeys": 1},
    {"pooled": 5, "pooled_due": 5},
    {"pooled_due": 5},
    PLAIN,
    {**PLAIN, "completed": None},
]


def test_good_evidence_passes() -> None:
    assert decide(GOOD).verdict == "pass"
    assert decide(GOOD).reason is None


@pytest.mark.parametrize(("change", "verdict", "name"), BROKEN)
def test_one_broken_thing(change: dict[str, Any], verdict: str, name: str) -> None:
    found = decide(replace(GOOD, **change))
    assert found.verdict == verdict
    assert [(finding.grade, finding.name) for finding in found.findings] == [(verdict, name)]
    assert found.reason is not None and found.reason.startswith(f"{name}: ")


@pytest.mark.parametrize("change", ALLOWED)
def test_allowed(change: dict[str, Any]) -> None:
    assert decide(replace(GOOD, **change)).verdict == "pass"


def test_fail_outweighs_invalid_and_both_are_kept() -> None:
    found = decide(replace(GOOD, ghosts=2, traced=1))
    assert found.verdict == "fail"
    assert {finding.grade for finding in found.findings} == {"fail", "invalid"}


@pytest.mark.parametrize("word", ["unsupported", "not-run"])
def test_a_cell_that_was_not_carried_out_is_not_judged(word: str) -> None:
    found = decide(replace(GOOD, stopped=(word, "no Ascon here"), completed=0))
    assert (found.verdict, found.reason, found.findings) == (word, "no Ascon here", ())


@given(st.integers(0, 60), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_a_pass_means_that_nothing_was_found(done: int, ghosts: int, failed: int, impaired: bool) -> None:
    found = decide(replace(GOOD, completed=done, ghosts=ghosts, failed=failed, impaired=impaired))
    assert (found.verdict == "pass") == (found.findings == ()) == (found.reason is None)
