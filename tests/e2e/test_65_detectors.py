"""Detectors in the running lab: they judge, raise their canary, sleep in others' cells, and leave nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK

from .conftest import docker, measured, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SUITE = "cs-mlkem768-aesgcm-mldsa65"
OURS = "label=com.docker.compose.project=pqlab"


@pytest.fixture(scope="module")
def bundle() -> Path:
    """One cell without a detector and one with XGBoost."""
    done = run(
        "./pqlab",
        "run",
        "detectors",
        "--suites",
        SUITE,
        "--condition",
        "baseline",
        "--condition",
        "xgboost",
        "--session-s",
        "5",
        "--json",
        *BUSY_OK,
        timeout_s=600,
    )
    return measured(done)


def cells(bundle: Path) -> dict[str, Any]:
    found = {}
    for path in (bundle / "data" / "cells").glob("*/record.json"):
        record = json.loads(path.read_text())
        found[record["condition"]] = record["categories"]["S"]
    return found


def test_every_window_has_its_verdict_and_the_canary_is_raised(bundle: Path) -> None:
    s = cells(bundle)["xgboost"]
    assert s["detector_windows_due_count"]["value"] >= 5
    assert s["detector_verdict_count"]["value"] == s["detector_windows_due_count"]["value"]
    assert s["detector_ready"]["value"] is True
    assert s["detector_canary_raised"]["value"] is True
    assert s["detector_packets_seen_count"]["value"] > 1000
    # of both directions: the vehicle's 320 a second go out, in windows of 0.6 s
    due_packets = 320 * 0.6 * s["detector_windows_due_count"]["value"]
    assert s["detector_packets_seen_count"]["value"] >= 0.95 * due_packets
    assert s["detector_deadline_missed_count"]["value"] == 0
    assert s["detector_history_windows_count"]["value"] <= 60


def test_a_cell_without_a_detector_cost_none(bundle: Path) -> None:
    s = cells(bundle)["baseline"]
    assert s["detector_cpu_mean_pct"]["value"] == 0
    assert s["detector_others_cpu_ms"]["value"] == 0


def test_it_verifies_and_says_what_model_judged(bundle: Path) -> None:
    done = run("./pqlab", "verify", str(bundle), "--json")
    assert done.code in (0, 3), done.text[-3000:]
    facts = json.loads((bundle / "data" / "providers.json").read_text())["detectors"]["xgboost"]
    assert facts["sha256"] == cells(bundle)["xgboost"]["detector_model_sha256"]["value"]
    assert facts["image_id"].startswith("sha256:")


def test_no_detector_is_left_running(bundle: Path) -> None:
    left = docker("ps", "-a", "--filter", OURS, "--format", "{{.Names}}")
    assert "detector" not in left


def test_its_service_is_hardened() -> None:
    started = run("./compose/lab.sh", "profile", "detector-xgboost", timeout_s=300)
    assert started.code == 0, started.text[-2000:]
    (box,) = docker(
        "ps", "-q", "--filter", OURS, "--filter", "label=com.docker.compose.service=detector-xgboost"
    ).split()
    facts = json.loads(docker("inspect", box))[0]
    assert facts["HostConfig"]["CapDrop"] == ["ALL"] and not facts["HostConfig"]["CapAdd"]
    assert facts["HostConfig"]["ReadonlyRootfs"] is True
    assert not facts["HostConfig"]["Privileged"]
    assert set(facts["NetworkSettings"]["Networks"]) == {"pqlab_mgmt"}
    mounts = {mount["Destination"]: mount["RW"] for mount in facts["Mounts"]}
    assert mounts["/feed"] is False
    docker("rm", "--force", box)
