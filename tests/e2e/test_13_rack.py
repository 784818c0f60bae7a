"""Campaigns on places of labgrid's: a queue, a killed controller, a machine that is gone, power in mid-cell.

The rack is the example's, in containers beside lab 3; campaigns in the queue are simulated ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from busy import BUSY_OK, disturbed

from .conftest import ROOT, load_records, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.beside_waits]

THIRD = {"LAB": "3", "LG_COORDINATOR": "127.0.0.1:22408"}
SIM = ("run", "smoke", "--inventory", "ansible/inventories/sim.ini")
TAG = "board=container"
#: what the coordinator needs to forget a reservation (60 s, looked at every 15 s), and to hand the place on
FORGOTTEN_S, HANDED_ON_S = 75.0, 15.0
#: a start of the client on a busy machine, where a time is asked for
SLACK_S = 10.0


@pytest.fixture(scope="module")
def rack() -> Iterator[None]:
    made = run("make", "labgrid-venv", timeout_s=600)
    assert made.code == 0, made.text[-2000:]
    up = run("./compose/rack/rack", "up", timeout_s=600, env=THIRD)
    try:
        assert up.code == 0, up.text[-3000:]
        assert "127.0.0.1:22408" in up.out
        yield
    finally:
        down = run("./compose/rack/rack", "down", timeout_s=120, env=THIRD)
        assert down.code == 0, down.text[-2000:]
    for kind in (("ps", "-a"), ("network", "ls")):
        left = run("docker", *kind, "-q", "--filter", "label=com.docker.compose.project=pqlab3-rack")
        assert not left.out.strip()


@dataclass
class Running:
    """A campaign whose lines are read as they come."""

    process: subprocess.Popen[str]
    lines: list[str]

    @property
    def _out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def until(self, words: str) -> str:
        """The line that has these words."""
        while line := self._out.readline():
            self.lines.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(f"it ended without `{words}`: {self.lines[-5:]}")

    def place(self) -> str:
        return self.until(" is held until this run ends").split()[0]

    def send(self, number: signal.Signals) -> float:
        """Signal the controller alone; returns when."""
        os.kill(self.process.pid, number)
        return time.monotonic()

    def wardens(self) -> list[int]:
        found = run("pgrep", "-P", str(self.process.pid), "-f", "warden.py hold")
        return [int(pid) for pid in found.out.split()]

    def ended(self) -> int:
        self.lines += [line.strip() for line in self._out]
        return self.process.wait(60)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Running]]:
    """Every campaign of a test; none outlives it."""
    every: list[Running] = []
    yield every
    for one in every:
        one.process.kill()
        one.process.wait(60)


def begin(every: list[Running], out: Path, *words: str) -> Running:
    process = subprocess.Popen(
        [".venv/bin/python", "-m", "pqlab", *SIM, *words, "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, **THIRD},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    every.append(Running(process, []))
    return every[-1]


def test_three_campaigns_on_two_places(rack: None, started: list[Running], tmp_path: Path) -> None:
    """Two hold, the third waits; one is killed (-9), and its place is the third's. Each gets its turn."""
    first, second = (begin(started, tmp_path / name, "--reserve", TAG) for name in "ab")
    places = []
    for campaign in (first, second):
        places.append(campaign.place())
        campaign.send(signal.SIGSTOP)  # it holds its place and does nothing
    assert sorted(places) == ["rack-1", "rack-2"]
    third = begin(started, tmp_path / "c", "--reserve", TAG)
    told = third.until("waiting for a place")
    assert "rack-1 is held by " in told and "rack-2 is held by " in told and " since 2" in told
    refused = pqlab(*SIM, "--place", places[0], "--out", str(tmp_path / "d"), env=THIRD)
    assert refused.code == 4 and f"{places[0]} is held by " in refused.err
    killed_s = first.send(signal.SIGKILL)
    assert third.place() == places[0]
    took_s = time.monotonic() - killed_s
    print(f"place handed on {took_s:.1f} s after kill -9")
    assert took_s <= HANDED_ON_S + SLACK_S
    second.send(signal.SIGCONT)
    for campaign, where in ((second, places[1]), (third, places[0])):
        assert campaign.ended() == 0, campaign.lines[-5:]
        bundle = tmp_path / ("b" if campaign is second else "c") / "latest"
        for role in ("drone", "gcs"):
            facts = json.loads((bundle / "data" / "hosts" / f"{role}.json").read_text())["place"]
            assert (facts["name"], facts["tags"]["board"]) == (where, "container")
            assert facts["coordinator_version"].startswith("26.")
        assert pqlab("verify", str(bundle)).code in (0, 3)
    assert pqlab(*SIM, "--place", places[0], "--out", str(tmp_path / "e"), env=THIRD).code == 0


def test_a_controller_that_is_gone_with_its_warden(
    rack: None, started: list[Running], tmp_path: Path
) -> None:
    """As when its machine loses power: the coordinator forgets the reservation by itself."""
    gone = begin(started, tmp_path / "a", "--place", "rack-1")
    gone.place()
    gone.send(signal.SIGSTOP)
    waits = begin(started, tmp_path / "b", "--place", "rack-1", "--wait-s", "180")
    waits.until("waiting for a place")
    (warden,) = gone.wardens()
    os.kill(warden, signal.SIGKILL)
    killed_s = gone.send(signal.SIGKILL)
    waits.place()
    took_s = time.monotonic() - killed_s
    print(f"place handed on {took_s:.1f} s after the loss of controller and warden")
    assert took_s <= FORGOTTEN_S + HANDED_ON_S + SLACK_S
    assert waits.ended() == 0


SCENARIO = """\
schema: pqlab/scenario/v1
name: power
title: One end loses its power in mid-session
seed: 7
suites: [cs-mlkem768-aesgcm-mldsa65]
repetitions: 1
order: {method: abba}
conditions:
  - name: before
  - name: cycled
    events: [{at_s: 3, kind: power_cycle, role: drone}]
  - name: after
handshake: {count: 10, min_count: 5, max_s: 20}
traffic: {source: auto, profile: intervals_320hz, rate_hz: 320, session_s: 10}
"""


def test_power_is_cycled_in_mid_cell_and_the_next_cell_is_whole(rack: None, tmp_path: Path) -> None:
    (tmp_path / "power.yml").write_text(SCENARIO)
    words = ("run", str(tmp_path / "power.yml"), "--place", "rack-1", "--json", *BUSY_OK)
    up = run("make", "lab-up", timeout_s=300, env=THIRD)
    try:
        assert up.code == 0, up.text[-3000:]
        refused = pqlab(*words, "--out", str(tmp_path / "no"), env=THIRD)
        assert refused.code == 4 and "has no power driver" in refused.err
        power = ("--power", "compose/rack/power.yml")
        done = pqlab(*words, *power, "--out", str(tmp_path / "yes"), timeout_s=600, env=THIRD)
    finally:
        down = run("make", "lab-down", timeout_s=120, env=THIRD)
    assert down.code == 0, down.text[-2000:]
    assert done.code == 1, done.text[-3000:]
    bundle = ROOT / str(done.json()["bundle"])
    records = {record["condition"]: record for record in load_records(bundle)}
    cycled = records.pop("cycled")
    reason = "power_cycle: the power of the drone was cycled at 3 s (place rack-1)"
    assert (cycled["verdict"], cycled["reason"], cycled["attempts"]) == ("invalid", reason, 1)
    assert records.keys() == {"before", "after"}
    for record in records.values():
        assert record["verdict"] == "pass" or disturbed(record), record["reason"]
    cell = bundle / "data" / "cells" / cycled["cell_id"]
    events = [json.loads(line) for line in (cell / "events.ndjson").read_text().splitlines()]
    (amiss,) = [event["containers"] for event in events if event.get("containers")]
    assert amiss[0].startswith("container drone "), "what became of it stands beside the reason"
    assert pqlab("verify", str(bundle)).code in (0, 3)
