"""The users' own ends in one campaign: an arm64 drone and a Windows ground station (`make platforms`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Finished, load_records, pqlab, run, value

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SUITES = {
    "cs-mlkem512-aesgcm-mldsa44",
    "cs-mlkem768-aesgcm-mldsa65",
    "cs-mlkem768-ascon128a-mldsa65",
    "cs-mlkem768-chacha20poly1305-mldsa65",
    "cs-mlkem1024-aesgcm-mldsa87",
    "cs-hqc128-aesgcm-falcon512",
    "cs-classicmceliece348864-chacha20poly1305-mldsa44",
}


@pytest.fixture(scope="module")
def done() -> Iterator[Finished]:
    """`make platforms` has a lab of its own; the one that stands here goes before it and comes back after."""
    assert run("make", "lab-down", timeout_s=120).code == 0
    try:
        finished = run("make", "platforms", timeout_s=2400)
        if any(line.startswith("skipped: ") for line in finished.out.splitlines()):
            pytest.skip(next(line for line in finished.out.splitlines() if line.startswith("skipped: ")))
        yield finished
    finally:
        up = run("make", "lab-up", timeout_s=300)
    assert up.code == 0, up.text[-3000:]


@pytest.fixture(scope="module")
def bundle(done: Finished) -> Path:
    assert done.code == 0, done.text[-6000:]
    return ROOT / done.out.rstrip().splitlines()[-1]


@pytest.fixture(scope="module")
def records(bundle: Path) -> list[dict[str, Any]]:
    return load_records(bundle)


def test_every_cell_passes(records: list[dict[str, Any]]) -> None:
    told = {(r["suite_id"], r["condition"]): (r["verdict"], r["reason"]) for r in records}
    assert {verdict for verdict, _ in told.values()} == {"pass"}, told
    assert {suite for suite, condition in told if condition == "baseline"} == SUITES


def test_it_verifies_offline(bundle: Path) -> None:
    checked = pqlab("verify", str(bundle))
    assert checked.code in (0, 3), checked.text[-3000:]


def test_each_end_says_what_it_is(bundle: Path) -> None:
    hosts = {
        role: json.loads((bundle / "data/hosts" / f"{role}.json").read_text(encoding="utf-8"))
        for role in ("drone", "gcs")
    }
    drone, ground = hosts["drone"]["host"], hosts["gcs"]["host"]
    assert (drone["machine"], drone["emulated"]) == ("aarch64", "qemu-user")
    assert ground["wine"].startswith("10.") and ground["machine"].upper() == "AMD64"
    assert {facts["ring"] for facts in hosts.values()} == {"lab"}
    assert all(facts["selftest"]["ok"] for facts in hosts.values())


def test_keys_were_renewed_and_a_detector_judged(records: list[dict[str, Any]]) -> None:
    of = {r["condition"]: r for r in records if r["suite_id"] == "cs-mlkem768-aesgcm-mldsa65"}
    assert value(of["rekey"], "F", "rekey_success_count") >= 1
    assert value(of["xgboost"], "S", "detector_verdict_count") > 0


def test_no_time_of_it_is_a_claim(bundle: Path) -> None:
    page = (bundle / "data/report.md").read_text(encoding="utf-8")
    assert page.index("No time of this run is a claim") < page.index("Verdicts: ")
    assert "qemu-user" in page and "wine 10." in page
    for name in ("effects", "pareto", "condition_effects", "detector_overhead", "comparison"):
        table = (bundle / "data/analysis" / f"{name}.csv").read_text(encoding="utf-8")
        assert len(table.splitlines()) == 1, f"{name}.csv holds a row"
