"""A ground station flies through the tunnel, the suite changes under it; nothing of it is a measurement."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, container, docker, load_records, pqlab, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

OTHER = "cs-mlkem512-chacha20poly1305-falcon512"
#: pymavlink is in the traffic services' image, and not on this machine
CLIENT = (
    "docker", "run", "--rm", "--network", "host", "--label", "pqlab.tool=test", "--entrypoint", "python3",
    "pqlab/sitl:dev", "-u", "-c",
)  # fmt: skip
PARAMETERS = """
import json
from pymavlink import mavutil
link = mavutil.mavlink_connection("tcp:127.0.0.1:5760", source_system=250)
beat = link.wait_heartbeat(timeout=20)
link.mav.param_request_list_send(1, 1)
names, due = set(), None
while due is None or len(names) < due:
    value = link.recv_match(type="PARAM_VALUE", blocking=True, timeout=20)
    if value.param_index != 65535:
        names.add(value.param_id)
        due = value.param_count
print(json.dumps({"system": beat.get_srcSystem(), "names": len(names), "due": due}))
"""
ORDERS = """
import pathlib, time
from pymavlink import mavutil
link = mavutil.mavlink_connection("udpout:127.0.0.1:14555", source_system=250)
here = pathlib.Path("/tmp/visitor")
here.touch()
while here.exists():
    link.mav.command_long_send(1, 1, mavutil.mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 0, 0, 0, 0, 0, 0, 0, 0)
    time.sleep(0.2)
"""
HEARTBEATS = """
from pymavlink import mavutil
link = mavutil.mavlink_connection("udpin:127.0.0.1:14550")
while True:
    print(link.wait_heartbeat(timeout=20).get_srcSystem())
"""


class Spoken:
    """Lines of a process, as they come."""

    def __init__(self, process: subprocess.Popen[str], stream: str = "stdout") -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.text = ""
        self._reader = threading.Thread(target=self._read, args=(getattr(process, stream),), daemon=True)
        self._reader.start()

    def wait_for(self, words: str, limit_s: float = 60.0) -> str:
        """The next line that has these words in it."""
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            try:
                line = self._lines.get(timeout=0.5)
            except queue.Empty:
                continue
            self.text += line
            if words in line:
                return line
        pytest.fail(f"no line with `{words}` within {limit_s:g} s; so far:\n{self.text[-4000:]}")

    def whole(self) -> str:
        """All of it, once its process has ended; lines that were folded for a terminal are one again."""
        self._reader.join(timeout=30.0)
        while not self._lines.empty():
            self.text += self._lines.get()
        return " ".join(self.text.split())

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)


@pytest.fixture
def flight(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Spoken]]:
    """A session at work; killed at the end where a test did not end it."""
    process = subprocess.Popen(
        ["./pqlab", "fly", "--out", str(tmp_path / "results")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process, Spoken(process)
    finally:
        process.kill()
        process.wait(timeout=10)
        run("./pqlab", "heal")


def test_a_ground_station_flies_and_the_suite_changes_under_it(
    flight: tuple[subprocess.Popen[str], Spoken], tmp_path: Path
) -> None:
    process, said = flight
    assert process.stdin is not None
    said.wait_for("commands:")

    asked = json.loads(run(*CLIENT, PARAMETERS, timeout_s=90).out.splitlines()[-1])
    assert asked["system"] == 1
    assert asked["names"] == asked["due"] >= 40

    station = subprocess.Popen([*CLIENT, HEARTBEATS], stdout=subprocess.PIPE, text=True)
    try:
        heard = Spoken(station)
        heard.wait_for("1")
        process.stdin.write(f"suite {OTHER}\nstatus\n")
        process.stdin.flush()
        said.wait_for(f"by {OTHER}")
        for _ in range(3):
            heard.wait_for("1")
    finally:
        station.kill()
        station.wait(timeout=10)

    busy = pqlab("run", "smoke", "--reps", "1", timeout_s=60)
    assert busy.code == 4 and "another pqlab is driving" in busy.text, busy.text[-2000:]

    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    said.wait_for("flown, not measured")
    (folder,) = (tmp_path / "results" / "flown").iterdir()
    flown = json.loads((folder / "flown.json").read_text())
    assert (flown["measured"], flown["counters"]["gcs_source"]["error"]) == (False, None)
    assert flown["counters"]["ground_port"]["up_frames"] > 0
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    assert [row["suite_id"] for row in events if row["event"] == "suite"][-1] == OTHER
    assert {"ground_station", "end"} <= {row["event"] for row in events}

    refused = pqlab("verify", str(folder))
    assert refused.code == 5 and "was flown, not measured" in refused.text
    healed = pqlab("heal")
    assert healed.code == 0 and healed.text.count("was idle") == 2, healed.text


def test_a_visitor_that_gives_orders_costs_a_measured_cell(tmp_path: Path) -> None:
    """It comes in beside the ground's MAVProxy, for a run keeps the port shut. The cell is made again."""
    ground = container("mavproxy-gcs")
    visitor = subprocess.Popen(
        ["docker", "exec", ground, "python3", "-c", ORDERS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        one = ("--suites", "cs-mlkem768-aesgcm-mldsa65", "--reps", "1", "--session-s", "3")
        options = (*one, "--json", "--busy-ok", "--settle-s", "0")
        controller = subprocess.Popen(
            ["./pqlab", "run", "smoke", *options, "--out", str(tmp_path / "results")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = Spoken(controller, "stderr")
        said.wait_for("attempt 2")
        docker("exec", ground, "rm", "/tmp/visitor")
        visitor.wait(timeout=10)
        assert controller.stdout is not None
        out = controller.stdout.read()
        controller.wait(timeout=60)
    finally:
        # MAVProxy would send to the visitor's address for ever; a visitor that is still there ends with it
        docker("restart", "--time", "1", ground)
        visitor.kill()
        visitor.wait(timeout=10)
    again = said.whole()
    assert "a visitor (system 250, component" in again and "MAV_CMD_COMPONENT_ARM_DISARM" in again
    bundle = ROOT / json.loads(out.splitlines()[-1])["bundle"]
    (record,) = load_records(bundle)
    cell = bundle / "data" / "cells" / record["cell_id"]
    told = [json.loads(line) for line in (cell / "attempt-1" / "events.ndjson").read_text().splitlines()]
    (visit,) = [row for row in told if row["event"] == "visitor"]
    assert (visit["window"], visit["system"]) == ("traffic", 250)
    assert pqlab("verify", str(bundle)).code in (0, 3)
