"""Two labs on one machine: each measures its share of a campaign at once, the shares become one bundle, and
one lab goes while the other stays as it is.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from busy import BUSY_OK, amiss

from .conftest import ROOT, load_records, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

SECOND = {"LAB": "2"}
OF_SECOND = "label=com.docker.compose.project=pqlab2"
ONE = ("--suites", "cs-mlkem768-aesgcm-mldsa65", "--reps", "2", "--session-s", "4", "--json", *BUSY_OK)


def share(number: int) -> tuple[str, ...]:
    """Every second block of it, measured by a pair of its own."""
    return ("--share", f"{number}/2", "--pair", f"pair-{number}")


def containers(label: str) -> dict[str, str]:
    """Name → id and when it began, of the running containers."""
    ids = run("docker", "ps", "-q", "--filter", label).out.split()
    shown = json.loads(run("docker", "inspect", *ids).out) if ids else []
    return {row["Name"]: f"{row['Id']} {row['State']['StartedAt']}" for row in shown}


def test_they_measure_shares_side_by_side_and_end_apart(tmp_path: Path) -> None:
    first = containers("label=com.docker.compose.project=pqlab")
    up = run("make", "lab-up", timeout_s=300, env=SECOND)
    try:
        assert up.code == 0, up.text[-3000:]
        assert "48180" in up.out and "lab 2 is this checkout's" in up.out
        assert len(containers(OF_SECOND)) == 7
        beside = subprocess.Popen(
            ["./pqlab", "run", "smoke", *ONE, *share(1), "--out", str(tmp_path / "1")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        second = pqlab(
            "run", "smoke", *ONE, *share(2), "--out", str(tmp_path / "2"), timeout_s=400, env=SECOND
        )
        out, err = beside.communicate(timeout=400)
        assert beside.returncode in (0, 1, 3) and second.code in (0, 1, 3), err[-2000:] + second.text[-2000:]
        parts = [ROOT / str(doc["bundle"]) for doc in (json.loads(out.splitlines()[-1]), second.json())]
        for bundle in parts:
            assert amiss(bundle) == {} and len(load_records(bundle)) == 1
            assert pqlab("verify", str(bundle)).code in (0, 3)
    finally:
        down = run("make", "lab-down", timeout_s=120, env=SECOND)
    assert down.code == 0 and "lab 2 is down" in down.out, down.text[-2000:]
    merged = pqlab("merge", *map(str, parts), "--out", str(tmp_path / "merged"), "--json")
    assert merged.code in (0, 3), merged.text[-2000:]
    whole = ROOT / str(merged.json()["bundle"])
    assert pqlab("verify", str(whole)).code in (0, 3)
    assert (merged.json()["pairs"], merged.json()["missing_repetitions"]) == (["pair-1", "pair-2"], [])
    for kind in (("ps", "-a"), ("network", "ls"), ("volume", "ls")):
        assert not run("docker", *kind, "-q", "--filter", OF_SECOND).out.strip()
    assert containers("label=com.docker.compose.project=pqlab") == first
