"""Two pairs of one inventory, container labs of one machine: they measure a campaign side by side, one dies
in its second block and is resumed alone by the playbook, the shares become one bundle, and one lab goes while
the other stays as it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK, amiss

from .conftest import ROOT, Finished, load_records, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_waits, pytest.mark.usefixtures("lab")]

SECOND = {"LAB": "2"}
OF_SECOND = "label=com.docker.compose.project=pqlab2"
PAIRS = ROOT / "ansible" / "inventories" / "pairs-lab.ini"
SUITE = "cs-mlkem768-aesgcm-mldsa65"
#: four blocks, two a pair
CAMPAIGN = ("smoke", "--suites", SUITE, "--reps", "4", "--session-s", "3")


def containers(label: str) -> dict[str, str]:
    """Name → id and when it began, of the running containers."""
    ids = run("docker", "ps", "-q", "--filter", label).out.split()
    shown = json.loads(run("docker", "inspect", *ids).out) if ids else []
    return {row["Name"]: f"{row['Id']} {row['State']['StartedAt']}" for row in shown}


@pytest.fixture
def second_lab() -> Iterator[None]:
    """Lab 2, up beside the first, which nothing of it touches."""
    first = containers("label=com.docker.compose.project=pqlab")
    up = run("make", "lab-up", timeout_s=300, env=SECOND)
    try:
        assert up.code == 0, up.text[-3000:]
        assert "48180" in up.out and "lab 2 is this checkout's" in up.out
        assert len(containers(OF_SECOND)) == 7
        yield
    finally:
        down = run("make", "lab-down", timeout_s=120, env=SECOND)
    assert down.code == 0 and "lab 2 is down" in down.out, down.text[-2000:]
    for kind in (("ps", "-a"), ("network", "ls"), ("volume", "ls")):
        assert not run("docker", *kind, "-q", "--filter", OF_SECOND).out.strip()
    assert containers("label=com.docker.compose.project=pqlab") == first


def status_of(pair: Path) -> dict[str, Any]:
    """How far a pair's own run is; {} before its first cell."""
    for file in pair.glob(".work/*/status.json"):
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    return {}


def begun(results: Path) -> tuple[Finished, Path]:
    """The campaign on both pairs, of which pair_2 is killed in its second block."""
    command = [
        "./pqlab",
        "run",
        *CAMPAIGN,
        *BUSY_OK,
        "--inventory",
        str(PAIRS),
        "--out",
        str(results),
        "--json",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )

    def in_second_block() -> bool:
        told = status_of(next(results.glob("pairs/*/pair_2"), results))
        return told.get("done") == 1 and told.get("current") is not None

    try:
        while not in_second_block() and process.poll() is None:
            time.sleep(0.2)  # seldom: this machine is being measured
        (folder,) = results.glob("pairs/*")
        assert process.poll() is None, "it ended before its second block"
        os.kill(int(status_of(folder / "pair_2")["pid"]), signal.SIGKILL)
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            process.terminate()
    return Finished(process.returncode, out, err, 0.0), folder


@pytest.mark.usefixtures("second_lab")
def test_a_pair_dies_in_its_second_block_and_the_playbook_resumes_it_alone(tmp_path: Path) -> None:
    results = tmp_path / "results"
    killed, folder = begun(results)
    assert killed.code == 4, killed.text[-3000:]
    assert "pair_2 ended without its share: its controller was killed by SIGKILL" in killed.err
    assert "no merge yet: pair_2 left no share" in killed.err
    lines = [line for line in killed.err.splitlines() if "│" in line]
    assert {line[:8] for line in lines} == {"pair_1 │", "pair_2 │"}, "whole lines, each of one pair"
    first = killed.json()
    sealed = (folder / "pair_1" / "latest").resolve()
    assert [row["died"] is None for row in first["pairs"]] == [True, False] and first["bundle"] is None
    assert amiss(sealed) == {} and len(load_records(sealed)) == 2
    told = pqlab("status", "--out", str(results))
    assert "pair_1: sealed, 2 of 2 cells" in told.out and "pair_2: killed, 1 of 2 cells" in told.out, (
        told.text
    )

    words = {"scenario": "smoke", "suites": SUITE, "reps": "4", "session_s": "3", "out": str(results)}
    options = json.dumps({**words, "run_scenario_options": list(BUSY_OK)})
    ready = run("./bootstrap.sh", "ansible-venv", timeout_s=600)
    assert ready.code == 0, ready.text[-2000:]
    played = subprocess.run(
        [
            str(ROOT / ".venv-ansible/bin/ansible-playbook"),
            "-i",
            str(PAIRS),
            "run-scenario.yml",
            "-e",
            options,
        ],
        cwd=ROOT / "ansible",
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    log = (ROOT / ".state/campaign/err.log").read_text()
    assert "pair_1 │ share 1/2 is sealed already" in log, played.stdout[-3000:] + log
    assert "pair_2 │ share 2/2 is in work: resuming it" in log
    whole = (results / "latest").resolve()
    assert f"results/{whole.name}" in played.stdout and "All 4 blocks of the campaign are here" in log
    resumed = (folder / "pair_2" / "latest").resolve()
    assert amiss(resumed) == {} and len(load_records(resumed)) == 2
    assert (folder / "pair_1" / "latest").resolve() == sealed, "what was sealed is not measured again"
    assert {path.name for path in (whole / "data" / "parts").iterdir()} == {sealed.name, resumed.name}
    assert pqlab("verify", str(whole)).code in (0, 3)
    assert json.loads((folder / "campaign.json").read_text())["merged"] == whole.name
