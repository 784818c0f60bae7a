"""Faults on purpose, in the container lab."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from busy import BUSY_OK

from .conftest import ROOT, measured, pqlab

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SUITE = "cs-mlkem768-aesgcm-mldsa65"


def recoveries(bundle: Path) -> dict[str, list[dict[str, str]]]:
    """Rows of fault_recovery.csv by condition."""
    found: dict[str, list[dict[str, str]]] = {}
    with (bundle / "data" / "analysis" / "fault_recovery.csv").open() as handle:
        for row in csv.DictReader(handle):
            found.setdefault(row["condition"], []).append(row)
    return found


def test_faults_on_purpose_pass_and_tell_their_recovery(tmp_path: Path) -> None:
    """One of each kind from `chaos`: the other end, and another length, take the same way."""
    timed = {"kill-drone", "kill-gcs", "partition-6s", "stall-gcs", "ground-pause"}
    scenario = yaml.safe_load((ROOT / "scenarios" / "chaos.yml").read_text())
    scenario["conditions"] = [c for c in scenario["conditions"] if c["name"] in timed]
    (tmp_path / "chaos.yml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    words = ("run", str(tmp_path / "chaos.yml"), "--suites", SUITE, "--session-s", "16", "--json", *BUSY_OK)
    bundle = measured(pqlab(*words, timeout_s=900))
    told = recoveries(bundle)
    assert timed == set(told)
    assert [row["reason"] for name in timed for row in told[name] if not row["recovery_ms"]] == []
    # from the last packet before the kill, which a busy machine may have held back a while
    assert float(told["kill-gcs"][0]["recovery_ms"]) >= 2900.0, "the drone needs 3 s to know"
    verified = pqlab("verify", str(bundle))
    assert verified.code == 3, verified.text[-4000:]  # a killed agent takes the key of its chain with it
    assert "was started again before it could swear" in verified.text
    assert "1 warnings, 0 failed" in verified.text
    assert "Faults on purpose" in (bundle / "data" / "report.html").read_text()
