"""Observers on and off: what a cell does for it, and how the accounts are read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab

from pqevidence.errors import LabError
from pqlab.campaign.engine import Campaign
from pqlab.campaign.faults import Pause
from pqlab.campaign.observers import NO_OBSERVERS, ComposeObservers, compose_observers

Json = dict[str, Any]
SUITE = "cs-mlkem768-aesgcm-mldsa65"


# ---------------------------------------------------------------------- a campaign in memory


class Counted:
    """Everybody uses a millisecond from one reading to the next."""

    def __init__(self) -> None:
        self.readings = 0

    def usage(self) -> Json:
        self.readings += 1
        return {"t_ns": self.readings, "services": {"telegraf": {"cpu_ns": self.readings * 10**6}}}


def observed(lab: FakeLab) -> Any:
    return lab.asked(
        "conditions: [{name: observed}, {name: bare, without: [sampler, ledger]}]\n"
        "traffic: {session_s: 5}\norder: {method: fixed}\n"
    )


def test_a_cell_without_an_observer_asks_for_it_and_keeps_the_accounts(tmp_path: Path) -> None:
    lab, counted = FakeLab(tmp_path), Counted()
    result = Campaign.begin(replace(lab.around(), observers=counted), observed(lab)).carry_out()
    assert result.verdict_counts == {"pass": 2}
    data = result.bundle / "data"
    full, bare = (
        data / "cells" / row["cell_id"] for row in json.loads((data / "plan.json").read_text())["cells"]
    )
    for agent in (lab.drone, lab.gcs):
        assert [p["ledger"] for m, p in agent.calls if m == "prepare"] == [True, False]
        stalls = [p for m, p in agent.calls if m == "event" and p["kind"] == "sensor_stall"]
        assert [p["cell_id"] for p in stalls] == [bare.name]
    assert (full / "ledger.drone.csv").is_file() and not (bare / "ledger.drone.csv").exists()
    for cell in (full, bare):
        document = json.loads((cell / "observers.json").read_text())
        assert document["after"]["services"]["telegraf"]["cpu_ns"] > document["before"]["t_ns"]
    assert counted.readings == 4


def test_a_campaign_that_leaves_nobody_out_reads_no_account(tmp_path: Path) -> None:
    lab, counted = FakeLab(tmp_path), Counted()
    around = replace(lab.around(), observers=counted)
    result = Campaign.begin(around, lab.asked("traffic: {session_s: 5}\n")).carry_out()
    assert counted.readings == 0
    assert not list((result.bundle / "data").glob("cells/*/observers.json"))


def test_without_containers_telegraf_cannot_stand_still(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    scenario = lab.asked("conditions: [{name: a}, {name: b, without: [telegraf]}]\ntraffic: {session_s: 5}\n")
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), scenario).carry_out()
    assert caught.value.code in ("no-timeline", "no-containers")


# ---------------------------------------------------------------------- the kernel's accounts


def test_accounts_are_read_from_groups_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = tmp_path / "proc"

    def process(pid: int, command: str, threads: dict[int, tuple[int, str]]) -> None:
        for tid, (ns, children) in threads.items():
            task = proc / str(pid) / "task" / str(tid)
            task.mkdir(parents=True)
            (task / "schedstat").write_text(f"{ns} 5 1\n")
            (task / "children").write_text(children)
        (proc / str(pid) / "cmdline").write_bytes(command.replace(" ", "\0").encode())

    process(1, "/sbin/docker-init", {1: (7, "10 ")})
    # the sampler is the child of the thread that started it
    process(10, "python3 -m pqtunnel drone", {10: (100, ""), 11: (23, "20")})
    process(20, "python3 -m pqtelemetry sample", {20: (9, "")})
    (proc / "stat").write_text("cpu  10 1 4 900 50 2 3 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    monkeypatch.setattr("pqlab.campaign.observers.containers", lambda _project: [("drone", 1)])
    told = ComposeObservers("p", proc).usage()
    assert told["ends"] == {"drone": {"tunnel_cpu_ns": 123, "sampler_cpu_ns": 9}}
    assert told["machine"] == {"busy_ms": 200, "steal_ms": 80}
    assert told["services"]["drone"]["cpu_ns"] is None and told["services"]["drone"]["reason"]
    assert told["reason"] is None


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        ("exit 1", "the container engine did not name the containers"),
        ("exit 0", "no container of p runs on this machine"),
    ],
)
def test_an_engine_that_names_no_container_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, reason: str
) -> None:
    (tmp_path / "stat").write_text("cpu  10 1 4 900 50 2 3 8 0 0\n")
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\n{client}\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = ComposeObservers("p", tmp_path).usage()
    assert told["services"] == {} and told["ends"] == {}
    assert told["reason"].startswith(reason)


def test_where_no_containers_are_nobody_reads() -> None:
    assert compose_observers(None) is NO_OBSERVERS and NO_OBSERVERS.usage() == {}


# ---------------------------------------------------------------------- standing still


def test_a_pause_ends_before_its_time_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, docker = tmp_path / "log", tmp_path / "docker"
    paused = f'[ "$1" != inspect ] || ! grep -qx pause {log} || echo true'
    docker.write_text(f'#!/bin/sh\necho "$1" >> {log}\n{paused}\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    pause = Pause("c0ffee", 300.0)
    pause.begun()
    pause.end()
    words = log.read_text().split()
    assert set(words[:-1]) == {"pause", "inspect"} and words[-1] == "unpause"
    with pytest.raises(ProcessLookupError):
        os.killpg(pause._process.pid, 0)
