"""Tables say what is missing and when the machine was busy; the document is written by the bench alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_kit import result

from pqbench import document
from pqbench.__main__ import read
from pqbench.errors import DocumentError
from pqbench.table import not_run, render

ROOT = Path(__file__).resolve().parents[2]


def rendered(busy: bool) -> str:
    run = result()
    if busy:
        run["machine"] |= {"is_busy": True, "reasons": ["load average 3.00 before the run (limit 0.7)"]}
    return render(run)


def test_missing_peers_are_printed_with_their_reason() -> None:
    text = rendered(busy=False)
    assert "missing: rosenpass does not build: no compiler" in text
    told = next(line for line in text.splitlines() if line.startswith("**Did not run: "))
    assert "Rosenpass (McEliece 460896 + Kyber-512) (rosenpass does not build: no compiler)" in told
    assert "boringtun (boringtun needs /dev/net/tun, which is not here)" in told
    assert "busy" not in text


@pytest.mark.parametrize(
    "key", ["awslc_mutual", "tls_mutual", "signing_floor", "wake_up", "link_tls", "link_rate"]
)
def test_nothing_that_did_not_run_is_passed_over(key: str) -> None:
    run = result()
    before = len(not_run(run))
    run["handshakes"][key] = {"missing": "it ended"}
    assert len(not_run(run)) == before + 1
    run["handshakes"]["link"][1] = {"suite_id": "cs-mlkem512-aesgcm-sphincs128s", "missing": "it ended"}
    assert ("pqlink: cs-mlkem512-aesgcm-sphincs128s", "it ended") in not_run(run)
    run["handshakes"]["floors"][0] = {"kem": "ML-KEM-768", "sig": "ML-DSA-65", "missing": "it ended"}
    assert ("bare TCP of ML-KEM-768 and ML-DSA-65", "it ended") in not_run(run)


def test_floors_stand_beside_the_suites_and_waking_up_above_them() -> None:
    text = rendered(busy=False)
    assert "| cs-mlkem768-aesgcm-mldsa65 | 30 | 0.80 | 0.80 | 0.40 | 2.000 | 0.67 | 1.200 |" in text
    assert "| same primitives, bare TCP: ML-KEM-768, both sign by ML-DSA-65 | 30 | 0.92 |" in text
    assert "| pqlink: cs-mlkem768-aesgcm-mldsa65 | 100 | 0.40 | 0.40 | 0.30 | 1.333 | 0.33 | 1.200 |" in text
    assert "Waking up costs 23.4 µs here" in text


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text('{"schema": "pqlab/bench/v1"}')
    with pytest.raises(DocumentError, match="bench/v1"):
        read(tmp_path / "bench.json")


def test_a_busy_machine_marks_every_verdict() -> None:
    text = rendered(busy=True)
    assert "**The machine was busy: load average 3.00 before the run (limit 0.7).**" in text
    assert text.count("| yes (busy) |") == 24
    assert "| yes |" not in text


BLANK = "# Title\n\n<!-- bench:begin -->\n<!-- bench:end -->\n\nrest\n"


def test_figures_go_between_the_markers_and_again() -> None:
    once = document.with_figures(BLANK, "a table")
    document.check(once)
    assert once.startswith("# Title\n\n<!-- bench:begin sha256=")
    assert once.endswith("\na table\n<!-- bench:end -->\n\nrest\n")
    assert document.with_figures(once, "a table") == once
    assert "a table" not in document.with_figures(once, "another")


@pytest.mark.parametrize(
    "text",
    [
        document.with_figures(BLANK, "0 lost").replace("0 lost", "1 lost"),
        BLANK.replace("begin -->\n", "begin -->\nby hand\n"),
        "no markers",
        BLANK + BLANK,
        "<!-- bench:end -->\n<!-- bench:begin -->\n",
    ],
)
def test_a_hand_between_the_markers_is_noticed(text: str) -> None:
    with pytest.raises(DocumentError):
        document.check(text)


def test_the_documents_figures_are_the_benchs() -> None:
    document.check((ROOT / "docs" / "PEERS.md").read_text("utf-8"))
