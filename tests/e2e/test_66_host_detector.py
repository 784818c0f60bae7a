"""A detector that lives on the drone's host and is moved through the agent: a campaign by inventory alone.

Here its host is the drone's container: the same signals, files and calls as on a board, and a canary that the
drone's agent sends to itself, because no attacker is there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK

from .conftest import ROOT, container, docker, measured, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SUITE = "cs-mlkem768-aesgcm-mldsa65"
FILES = ("-f", "compose/lab.yml", "-f", "tests/e2e/host_detector.yml")
SERVICE = "host-detector"


def state(box: str) -> str:
    """One letter of proc(5) for the detector's process, seen from inside."""
    pid = json.loads(docker("exec", box, "cat", "/verdicts/xgboost/service.json"))["pid"]
    return docker("exec", box, "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


@pytest.fixture(scope="module")
def box() -> Iterator[str]:
    """The detector beside the drone, asleep. As the lab's own user, whose agent has to reach it."""
    user = docker("inspect", "--format", "{{.Config.User}}", container("drone")).strip().split(":")
    env = {**os.environ, "LAB_UID": user[0], "LAB_GID": user[1]}
    assert run("./compose/lab.sh", "image", "detector-xgboost", timeout_s=300).code == 0
    up = ("docker", "compose", *FILES, "up", "-d", "--no-deps", SERVICE)
    started = run(*up, timeout_s=120, env=env)
    assert started.code == 0, started.text[-2000:]
    try:
        found = container(SERVICE)
        deadline = time.monotonic() + 60
        while run("docker", "exec", found, "test", "-f", "/verdicts/xgboost/service.json").code:
            assert time.monotonic() < deadline, docker("logs", found)
            time.sleep(0.2)
        yield found
    finally:
        run("docker", "rm", "--force", container(SERVICE))


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (ROOT / "ansible/inventories/lab.ini").read_text()
    line = next(line for line in text.splitlines() if "pqlab_role=drone" in line)
    file = tmp_path_factory.mktemp("inventory") / "hosts.ini"
    file.write_text(text.replace(line, f"{line} pqlab_detectors=xgboost"))
    return file


@pytest.fixture(scope="module")
def bundle(box: str, inventory: Path) -> Path:
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
        "--inventory",
        str(inventory),
        "--json",
        *BUSY_OK,
        timeout_s=600,
    )
    return measured(done)


def cells(bundle: Path) -> dict[str, Any]:
    records = (json.loads(path.read_text()) for path in (bundle / "data/cells").glob("*/record.json"))
    return {record["condition"]: record["categories"]["S"] for record in records}


def test_it_judges_and_raises_the_canary_of_its_own_host(bundle: Path) -> None:
    s = cells(bundle)["xgboost"]
    assert s["detector_windows_due_count"]["value"] >= 5
    assert s["detector_verdict_count"]["value"] == s["detector_windows_due_count"]["value"]
    assert s["detector_canary_raised"]["value"] is True
    assert s["detector_ready"]["value"] is True
    assert s["detector_false_alarm_count"]["value"] == 0
    assert 0 < s["detector_cpu_mean_pct"]["value"] < 50
    assert 5 < s["detector_rss_mb"]["value"] < 250


def test_it_sleeps_in_the_cell_that_is_not_its_own_and_after_all(bundle: Path, box: str) -> None:
    s = cells(bundle)["baseline"]
    assert s["detector_cpu_mean_pct"]["value"] == 0
    assert state(box) == "T"


def test_the_bundle_verifies_and_names_the_build_that_judged(bundle: Path) -> None:
    done = run("./pqlab", "verify", str(bundle))
    assert done.code == 0, done.text[-3000:]
    facts = json.loads((bundle / "data/providers.json").read_text())["detectors"]["xgboost"]
    assert facts["model"] == "xgboost-5w"
    assert facts["sha256"] == cells(bundle)["xgboost"]["detector_model_sha256"]["value"]


def test_no_other_host_was_sent_to(bundle: Path) -> None:
    """The canary is the drone's own: its account says what kind it was, and to whom it went."""
    truths = list((bundle / "data/cells").glob("*/canary/attack.ndjson"))
    assert len(truths) == 1
    rows = [json.loads(line) for line in truths[0].read_text().splitlines()]
    assert (rows[1]["kind"], rows[1]["target"], rows[1]["ended"]) == ("bad-header", "drone", "deadline")


def test_a_detector_that_is_not_there_is_told_before_the_first_cell(box: str, inventory: Path) -> None:
    other = inventory.with_name("other.ini")
    other.write_text(inventory.read_text().replace("pqlab_detectors=xgboost", "pqlab_detectors=tst"))
    done = run(
        "./pqlab",
        "run",
        "detectors",
        "--suites",
        SUITE,
        "--condition",
        "tst",
        "--session-s",
        "5",
        "--inventory",
        str(other),
        timeout_s=120,
    )
    assert done.code == 4
    assert "detector 'tst' does not run on this host" in done.text
    assert "provision.yml" in done.text
