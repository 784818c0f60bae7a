"""Two labs on one machine: both measure at once, and one goes while the other stays as it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from busy import BUSY_OK, amiss

from .conftest import ROOT, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SECOND = {"LAB": "2"}
OF_SECOND = "label=com.docker.compose.project=pqlab2"
ONE = ("--suites", "cs-mlkem768-aesgcm-mldsa65", "--reps", "1", "--session-s", "4", "--json", *BUSY_OK)


def containers(label: str) -> dict[str, str]:
    """Name → id and when it began, of the running containers."""
    ids = run("docker", "ps", "-q", "--filter", label).out.split()
    shown = json.loads(run("docker", "inspect", *ids).out) if ids else []
    return {row["Name"]: f"{row['Id']} {row['State']['StartedAt']}" for row in shown}


def test_they_measure_side_by_side_and_end_apart(tmp_path: Path) -> None:
    first = containers("label=com.docker.compose.project=pqlab")
    up = run("make", "lab-up", timeout_s=300, env=SECOND)
    try:
        assert up.code == 0, up.text[-3000:]
        assert "48180" in up.out and "lab 2 is this checkout's" in up.out
        assert len(containers(OF_SECOND)) == 7
        beside = subprocess.Popen(
            ["./pqlab", "run", "smoke", *ONE, "--out", str(tmp_path / "1")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        second = pqlab("run", "smoke", *ONE, "--out", str(tmp_path / "2"), timeout_s=400, env=SECOND)
        out, err = beside.communicate(timeout=400)
        assert beside.returncode in (0, 1, 3) and second.code in (0, 1, 3), err[-2000:] + second.text[-2000:]
        for document in (json.loads(out.splitlines()[-1]), second.json()):
            bundle = ROOT / str(document["bundle"])
            assert amiss(bundle) == {}
            assert pqlab("verify", str(bundle)).code in (0, 3)
    finally:
        down = run("make", "lab-down", timeout_s=120, env=SECOND)
    assert down.code == 0 and "lab 2 is down" in down.out, down.text[-2000:]
    for kind in (("ps", "-a"), ("network", "ls"), ("volume", "ls")):
        assert not run("docker", *kind, "-q", "--filter", OF_SECOND).out.strip()
    assert containers("label=com.docker.compose.project=pqlab") == first
