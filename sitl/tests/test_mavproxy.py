"""MAVProxy at both ends with a plain UDP forwarder in the tunnel's place: nothing lost, nothing changed."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.errors import ProcessError
from pqsitl.mavproxy import MODULES, Mavproxy, air_plan, ground_plan
from pqsitl.net import UdpLink, udp_is_bound
from pqsitl.roles import mavproxy_trouble
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from pqsitl.supervise import Supervised
from pqsitl.tlog import read_frames
from pqsitl.uplink import UplinkSource
from waiting import LIMIT_S, free_port, hold_back, wait_for

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("MAVProxy") is None, reason="MAVProxy is not installed (the sitl image has it)"
)

KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
"""os.kill on Windows ends a process at once, whatever the number."""
SLOW_START = "MAVProxy takes a minute to start under wine; the platforms campaign flies through it"


class Bump:
    """Two plaintext sockets joined: what the tunnel is to MAVProxy. Announces itself as its ends do."""

    def __init__(self, air_port: int, ground_port: int) -> None:
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self._ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for end, port in zip(self._ends, (air_port, ground_port), strict=True):
            end.bind(("127.0.0.1", 0))
            end.connect(("127.0.0.1", port))
            end.send(b"")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for end in self._ends:
            end.close()

    def _run(self) -> None:
        drone, ground = self._ends
        while not self._stop.is_set():
            for end in select.select(self._ends, [], [], 0.05)[0]:
                datagram = end.recv(4096)
                (self.down if end is drone else self.up).append(datagram)
                (ground if end is drone else drone).send(datagram)


@pytest.fixture
def chain() -> Iterator[tuple[Bump, UdpLink, UdpLink]]:
    air = air_plan("127.0.0.1", free_port(), free_port())
    ground = ground_plan("127.0.0.1", free_port(), free_port())
    ends = [Mavproxy(air), Mavproxy(ground)]
    try:
        wait_for(lambda: all(end.ready for end in ends))
        out, client = (int(plan.outs[0].rsplit(":", 1)[1]) for plan in (air, ground))
        wait_for(lambda: udp_is_bound(out) and udp_is_bound(client))
        bump = Bump(out, ground.master_port)
        vehicle = UdpLink(("127.0.0.1", air.master_port))
        station = UdpLink(("127.0.0.1", client))
        yield bump, vehicle, station
        bump.close()
        vehicle.close()
        station.close()
    finally:
        for end in ends:
            end.stop()


@pytest.mark.linux(SLOW_START)
def test_frames_pass_one_by_one_unchanged_and_timesync_comes_back(
    chain: tuple[Bump, UdpLink, UdpLink],
) -> None:
    bump, vehicle_link, station_link = chain
    sent: list[bytes] = []

    class Recording(EmbeddedSource):
        def send(self, datagram: bytes) -> None:
            hold_back(lambda: len(sent) - len(bump.down))
            if base is not None:  # the station's own socket, beyond the second MAVProxy
                hold_back(lambda: len(sent) - base - heard_so_far())
            sent.append(datagram)
            super().send(datagram)

    base: int | None = None

    def heard_so_far() -> int:
        heard = uplink.report()["downlink_frame_count"]
        assert isinstance(heard, int)
        return heard

    def rtts_so_far() -> list[float]:
        rtt_ms = uplink.report()["rtt_ms"]
        assert isinstance(rtt_ms, list)
        return rtt_ms

    vehicle = Recording(vehicle_link, TrafficSpec(rate_hz=320.0))
    uplink = UplinkSource(station_link, TrafficSpec(record=True))
    time.sleep(0.5)  # MAVProxy takes note of the announcements
    vehicle.start()
    wait_for(lambda: len(bump.down) > 50)
    uplink.start()
    wait_for(lambda: heard_so_far() > 0)
    base = len(sent)  # more than came before it listened, so that it never waits for what nobody heard
    wait_for(lambda: heard_so_far() > 900 and len(rtts_so_far()) >= 6)
    probe = uplink.stop()
    base = None
    report = vehicle.stop()
    wait_for(lambda: len(bump.down) >= len(sent))  # a loaded machine forwards the last ones late

    assert report["error"] is None and probe["error"] is None
    assert bump.down == sent, "each frame its own datagram, same bytes, same order, none lost"
    assert report["overridden"] == [] and report["ignored"] == {}, (
        "MAVProxy steers no rates and downloads nothing"
    )
    rtt_ms = probe["rtt_ms"]
    assert isinstance(rtt_ms, list)
    assert probe["timesync_sent"] == probe["timesync_answered"] == len(rtt_ms) >= 6
    assert 0 < min(rtt_ms) < 200
    heard = probe["downlink_frame_count"]
    assert isinstance(heard, int) and heard > 900

    assert uplink.recording is not None
    chunks = uplink.recording.page(0)["chunks"]
    assert isinstance(chunks, list)
    kept = [one.frame for one in read_frames(b"".join(base64.b64decode(chunk) for chunk in chunks))]
    first = sent.index(kept[0])
    assert len(kept) == heard and kept == sent[first : first + heard], "the log is what the vehicle sent"


@pytest.mark.linux(SLOW_START)
def test_mavproxy_is_quiet_while_nobody_flies(chain: tuple[Bump, UdpLink, UdpLink]) -> None:
    bump, _, _ = chain
    begin_s = time.monotonic()
    time.sleep(2.5)
    wait_for(lambda: len(bump.up) >= 1)
    assert bump.down == []
    assert len(bump.up) <= time.monotonic() - begin_s + 3.5, "one ground heartbeat a second"
    assert {len(frame) for frame in bump.up} == {21}


@pytest.mark.linux(SLOW_START)
def test_a_dead_mavproxy_is_trouble_with_its_last_words() -> None:
    proxy = Mavproxy(ground_plan("127.0.0.1", free_port(), free_port()))
    try:
        wait_for(lambda: proxy.ready)
        assert mavproxy_trouble(proxy) is None
        os.kill(proxy.process.pid, KILL)
        wait_for(lambda: proxy.process.exit_status is not None)
        trouble = mavproxy_trouble(proxy)
        assert isinstance(trouble, ProcessError)
        assert f"status {15 if sys.platform == 'win32' else -9}" in trouble.what
    finally:
        proxy.stop()


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows stops no process, nor tells what waits at a port"
)
def test_a_mavproxy_that_stops_reading_is_trouble_too() -> None:
    proxy = Mavproxy(ground_plan("127.0.0.1", free_port(), free_port()), stuck_s=0.5)
    try:
        wait_for(lambda: proxy.ready)
        os.kill(proxy.process.pid, signal.SIGSTOP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
            for _ in range(300):
                flood.sendto(bytes(40), ("127.0.0.1", proxy.plan.master_port))
        trouble = mavproxy_trouble(proxy)
        assert trouble is None, "a burst alone is none"
        wait_for(lambda: mavproxy_trouble(proxy) is not None)
        assert "read nothing" in str(mavproxy_trouble(proxy))
        os.kill(proxy.process.pid, signal.SIGCONT)
        wait_for(lambda: mavproxy_trouble(proxy) is None)
    finally:
        os.kill(proxy.process.pid, signal.SIGCONT)
        proxy.stop()


def service(role: str, **environment: str) -> subprocess.Popen[str]:
    values = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PQ_LISTEN_HOST": "127.0.0.1",
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "pqsitl", role], env=values, stderr=subprocess.PIPE, text=True
    )


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(part) for part in text.split()]


def hello(port: int) -> dict[str, object] | None:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b'{"op":"hello"}\n')
            answer: dict[str, object] = json.loads(connection.makefile().readline())
            return answer
    except OSError:
        return None


def is_ready(process: subprocess.Popen[str], port: int) -> bool:
    """Whether the service can be used; its own words where it has ended instead."""
    if process.poll() is not None:
        assert process.stderr is not None
        raise AssertionError(f"it ended with status {process.returncode}: {process.stderr.read()}")
    answer = hello(port)
    return answer is not None and answer["ready"] is True


@pytest.mark.skipif(sys.platform == "win32", reason="its children are found in /proc")
@pytest.mark.skipif(udp_is_bound(14550), reason="UDP 14550 is taken on this host")
def test_the_service_exits_with_a_clear_message_when_mavproxy_dies() -> None:
    port = free_port()
    with service("air", PQ_CONTROL_PORT=str(port)) as process:
        wait_for(lambda: is_ready(process, port))
        (proxy,) = children(process.pid)
        os.kill(proxy, signal.SIGKILL)
        assert process.wait(timeout=LIMIT_S) == 1
        assert process.stderr is not None
        assert "mavproxy-air ended with status -9" in process.stderr.read()


@pytest.mark.skipif(udp_is_bound(14550), reason="UDP 14550 is taken on this host")
def test_mavproxy_does_not_outlive_a_killed_service(tmp_path: Path) -> None:
    port = free_port()
    with service("air", PQ_CONTROL_PORT=str(port), TMPDIR=str(tmp_path)) as process:
        wait_for(lambda: is_ready(process, port))
        assert udp_is_bound(14550)
        process.kill()
        process.wait(timeout=LIMIT_S)
        wait_for(lambda: not udp_is_bound(14550))


def test_windows_start_of_mavproxy_needs_no_terminal_and_forwards(tmp_path: Path) -> None:
    """Its launcher runs here, too: with no readline and no wx to be found, as on a Windows host."""
    plan = ground_plan("127.0.0.1", free_port(), free_port())
    client_port = int(plan.outs[0].rsplit(":", 1)[1])
    line = [part if part != "MAVProxy.mavproxy" else "pqsitl.windowsproxy" for part in plan.command()]
    assert line[2] == "pqsitl.windowsproxy"
    if sys.platform == "win32":
        assert "--no-console" in line
    path = os.pathsep.join(sys.path)
    proxy = Supervised("proxy", line, cwd=tmp_path, environment={"HOME": str(tmp_path), "PYTHONPATH": path})
    try:
        wait_for(lambda: udp_is_bound(plan.master_port) and udp_is_bound(client_port))
        tunnel, client = (UdpLink(("127.0.0.1", port)) for port in (plan.master_port, client_port))
        frame = bytes(mav.MAVLink_heartbeat_message(2, 3, 0, 0, 3, 3).pack(mav.MAVLink(None, 1, 1)))
        client.send(b"")  # it takes note of its client

        def arrived() -> bool:
            tunnel.send(frame)
            return client.receive() == frame

        wait_for(arrived)
        tunnel.close()
        client.close()
    finally:
        proxy.stop()
    assert proxy.exit_status is not None
    assert not udp_is_bound(plan.master_port)


def test_a_service_ends_with_its_standard_input(tmp_path: Path) -> None:
    port = free_port()
    values = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PQ_LISTEN_HOST": "127.0.0.1"}
    values |= {"PQ_CONTROL_PORT": str(port), "PQ_VEHICLE_TARGET": "127.0.0.1:9", "PQ_SINK_PORT": "0"}
    line = [sys.executable, "-m", "pqsitl", "vehicle", "--stop-with-stdin"]
    with subprocess.Popen(line, env=values, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: process.poll() is not None or hello(port) is not None)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=LIMIT_S) == 0
    assert hello(port) is None


def test_the_command_line_steers_nothing_and_downloads_nothing() -> None:
    line = air_plan().command()
    assert {"--streamrate=-1", "--daemon", "--non-interactive", "--no-state", "--nowait"} <= set(line)
    assert {"--master=udpin:0.0.0.0:14550", "--out=udpin:0.0.0.0:47004"} <= set(line)
    for modules in MODULES.values():
        assert not {"param", "wp", "ftp", "terrain", "console", "map", "log"} & set(modules.split(","))
