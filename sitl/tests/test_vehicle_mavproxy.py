"""MAVProxy as a ground station of the embedded vehicle: its own commands, its own words."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pqsitl import mission
from pqsitl.net import UdpLink
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from waiting import free_port, wait_for

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("MAVProxy") is None,
        reason="MAVProxy is not installed (the sitl image has it)",
    ),
    pytest.mark.linux("MAVProxy takes a minute to start under wine"),
]
SPEEDUP = 10
PLAN = """QGC WPL 110
0\t1\t0\t16\t0\t0\t0\t0\t-35.363262\t149.165237\t584\t1
1\t0\t3\t22\t0\t0\t0\t0\t0\t0\t8\t1
2\t0\t3\t16\t0\t0\t0\t0\t-35.3631\t149.165237\t10\t1
3\t0\t3\t20\t0\t0\t0\t0\t0\t0\t0\t1
"""


class Console:
    """MAVProxy's standard input, and what it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def say(self, command: str, answer: str) -> None:
        """Type a command and wait for words that were not there before."""
        assert self.process.stdin is not None
        before = len(self.lines)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.hear(answer, before)

    def hear(self, answer: str, before: int = 0) -> None:
        try:
            wait_for(lambda: any(answer in line for line in self.lines[before:]), 120)
        except AssertionError as error:
            raise AssertionError(f"{answer!r} was not said:\n{''.join(self.lines)}") from error


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Console]:
    monkeypatch.setattr(mission, "REQUEST_RETRY_NS", mission.REQUEST_RETRY_NS * SPEEDUP)
    port = free_port()
    line = [sys.executable, "-m", "MAVProxy.mavproxy", f"--master=udpin:127.0.0.1:{port}", "--streamrate=1"]
    line += ["--nowait", "--no-state", "--mav20", "--dialect=ardupilotmega"]
    line += ["--default-modules=ftp,param,wp,fence,rally,mode,arm,log"]
    link = UdpLink(("127.0.0.1", port))
    spec = TrafficSpec(source="embedded", rate_hz=10.0)
    source = EmbeddedSource(link, spec, speedup=SPEEDUP, airborne=False)
    process = subprocess.Popen(
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TERM": "dumb"},
    )
    try:
        source.start()
        yield Console(process)
    finally:
        report = source.stop()
        process.kill()  # it waits for its console where it is asked to end
        process.wait()
        link.close()
    assert report["error"] is None


def test_mavproxy_connects_plans_flies_and_lands(console: Console, tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text(PLAN, encoding="ascii")
    console.hear("Received 371 parameters (ftp)")
    console.say("param set WPNAV_SPEED 800", "")
    console.say("param show WPNAV_SPEED", "800")
    console.say("wp load plan.txt", "TYPE_MISSION: ACCEPTED")
    console.say("wp list", "22 3 0.0000000000 0.0000000000 8.000000")
    console.say("fence list", "Requesting 0 fence items")
    console.say("log list", "No logs")
    console.say("mode GUIDED", "Mode GUIDED")
    console.say("arm throttle", "ARMED")
    console.say("mode AUTO", "Mission: 1 TAKEOFF")
    console.hear("Mission: 2 WAYPOINT")
    console.hear("Mission: landed and disarmed")
    console.hear("DISARMED")
