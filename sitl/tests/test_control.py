"""Traffic control over a real socket: sources in real time on loopback, and every wrong request's answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pqsitl.contract import check_traffic
from pqsitl.control import MAX_LINE_BYTES, ControlServer, answer_line
from pqsitl.errors import SitlError, SpecError
from pqsitl.health import check
from pqsitl.roles import VehicleService
from pqsitl.settings import Settings
from pqsitl.sink import BulkSink
from pqsitl.sources import BulkSource, EmbeddedSource
from pqsitl.tlog import TlogFrame, write_frames
from tools import python_told
from waiting import LIMIT_S, free_port, hold_back, wait_for

ENVIRONMENT = {"PQ_CONTROL_PORT": "0", "PQ_SINK_PORT": "0", "PQ_LISTEN_HOST": "127.0.0.1"}


class Lab:
    """A vehicle service behind its control port, its two targets, and a client."""

    def __init__(self) -> None:
        self.proxy = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.proxy.bind(("127.0.0.1", 0))
        self.far_sink = BulkSink("127.0.0.1", 0)
        sink_port = free_port()
        environment = {
            **ENVIRONMENT,
            "PQ_VEHICLE_TARGET": f"127.0.0.1:{self.proxy.getsockname()[1]}",
            "PQ_DIRECT_TARGET": f"127.0.0.1:{self.far_sink.port}",
            "PQ_SINK_PORT": str(sink_port),
        }
        self.sink_port = sink_port
        self.service = VehicleService(Settings.from_environment("vehicle", environment))
        self.server = ControlServer("127.0.0.1", 0, self.service.handle)
        self.server.serve_in_background()
        self.client = socket.create_connection(("127.0.0.1", self.server.port), LIMIT_S)
        self.lines = self.client.makefile("r")

    def ask(self, **request: Any) -> dict[str, Any]:
        return self.raw(json.dumps(request).encode())

    def raw(self, line: bytes) -> dict[str, Any]:
        self.client.sendall(line + b"\n")
        answer: dict[str, Any] = json.loads(self.lines.readline())
        return answer

    def close(self) -> None:
        self.client.close()
        self.server.shutdown()
        self.server.server_close()
        self.service.close()
        self.far_sink.close()
        self.proxy.close()


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


class Reader:
    """Reads along; the source sends no more than the proxy's socket holds, whoever is stalled."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(lab.proxy,))
        self._thread.start()
        sent, send = itertools.count(), EmbeddedSource.send

        def held(source: EmbeddedSource, datagram: bytes) -> None:
            number = next(sent)
            hold_back(lambda: number - self.count)
            send(source, datagram)

        monkeypatch.setattr(EmbeddedSource, "send", held)

    def _read(self, proxy: socket.socket) -> None:
        proxy.settimeout(0.1)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                self.count += bool(proxy.recv(2048))

    def close(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def reader(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    made = Reader(lab, monkeypatch)
    yield made
    made.close()


def test_auto_flies_the_embedded_vehicle_within_the_contract(lab: Lab, reader: Reader) -> None:
    before_s = time.time()
    started = lab.ask(
        op="start", spec={"source": "auto", "rate_hz": 320, "seed": 7, "duration_s": None, "path": None}
    )
    assert started["ok"] is True and started["source"] == "embedded"
    assert started["detail"]["ardupilot"] is False
    time.sleep(2.0)
    wait_for(lambda: reader.count > 320)
    assert lab.ask(op="status")["running"] is True
    report = lab.ask(op="stop")
    sent = report["sent"]
    assert report["error"] is None and report["unsent_count"] == 0
    duration_s = (sent["last_ns"] - sent["first_ns"]) / 1e9
    verdict = check_traffic(
        count=sent["count"],
        duration_s=duration_s,
        nominal_hz=320,
        sizes=sent["sizes"],
        profile="intervals_320hz",
    )
    # A host stalled for longer than 500 ms drops bursts and says so; the rate itself is held in virtual time.
    assert verdict.ok or report["skipped_count"] > 0, verdict.reason
    assert before_s - 1 < sent["first_ns"] / 1e9 < time.time() + 1
    wait_for(lambda: reader.count >= sent["count"])
    time.sleep(0.3)
    assert reader.count == sent["count"]


def test_silent_until_started_and_stop_when_idle_is_fine(lab: Lab) -> None:
    lab.proxy.settimeout(0.3)
    with pytest.raises(TimeoutError):
        lab.proxy.recv(2048)
    answer = lab.ask(op="stop")
    assert answer["ok"] is True and answer["source"] is None
    assert answer["sent"] == {"count": 0, "bytes": 0, "first_ns": None, "last_ns": None, "sizes": {}}


def test_bulk_is_paced_and_verified(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.far_sink.reset(expected_seed=5, expected_size=1200)
    sent_count, send = itertools.count(), BulkSource.send

    def held(source: BulkSource, datagram: bytes) -> None:
        number = next(sent_count)
        hold_back(lambda: number - lab.far_sink._verifier.count)
        send(source, datagram)

    monkeypatch.setattr(BulkSource, "send", held)
    begin_s = time.monotonic()
    assert lab.ask(op="start", spec={"source": "bulk", "rate_hz": 600, "size_bytes": 1200, "seed": 5})["ok"]
    wait_for(lambda: lab.far_sink._verifier.count >= 400)
    sent = lab.ask(op="stop")["sent"]
    assert 400 <= sent["count"] <= 600 * (time.monotonic() - begin_s) + 1, "no faster than it was asked to"
    wait_for(lambda: lab.far_sink._verifier.count >= sent["count"])
    lab.far_sink.settle()
    received = lab.far_sink.report(sent["count"])
    assert sent["sizes"] == {"1200": sent["count"]}
    assert (received["count"], received["corrupt"], received["duplicate"]) == (sent["count"], 0, 0)
    assert received["missing"] == 0


def test_the_vehicles_own_sink_counts_what_comes_back(lab: Lab) -> None:
    from pqsitl.bulk import BulkStream

    assert lab.ask(op="start", spec={"source": "sink"})["detail"]["sends"] is False
    stream = BulkStream(3, 400)
    damaged = bytearray(stream.payload(2))
    damaged[300] ^= 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        for payload in (stream.payload(0), stream.payload(0), bytes(damaged), stream.payload(3), b""):
            far.sendto(payload, ("127.0.0.1", lab.sink_port))
    wait_for(lambda: lab.ask(op="status")["received"]["count"] == 4)
    received = lab.ask(op="stop", expected_count=5)["received"]
    assert (received["count"], received["corrupt"], received["duplicate"], received["missing"]) == (
        4,
        1,
        1,
        3,
    )
    # Windows tells no drops.
    assert received["kernel_dropped"] == (None if sys.platform == "win32" else 0)
    assert lab.ask(op="stop")["received"]["count"] == 0


def test_a_log_is_replayed_at_its_own_pace(lab: Lab, tmp_path: Path) -> None:
    from pymavlink.dialects.v20 import ardupilotmega as mav

    vehicle = mav.MAVLink(None, srcSystem=1, srcComponent=1)
    frame = bytes(mav.MAVLink_heartbeat_message(2, 3, 0, 4, 4, 3).pack(vehicle))
    path = tmp_path / "flight.tlog"
    write_frames(path, [TlogFrame(1_000_000 + gap * 1000, frame) for gap in (0, 0, 150, 400)])
    started = lab.ask(op="start", spec={"source": "tlog", "path": str(path)})
    assert started["detail"]["frame_count"] == 4
    lab.proxy.settimeout(LIMIT_S)
    third_s, fourth_s = [], []
    for turn in range(3):
        if turn:
            lab.ask(op="start", spec={"source": "tlog", "path": str(path)})
        times = []
        for _ in range(4):
            assert lab.proxy.recv(2048) == frame
            times.append(time.monotonic())
        third_s.append(times[2] - times[0])
        fourth_s.append(times[3] - times[0])
        assert lab.ask(op="stop")["sent"]["count"] == 4
    # Windows' clock ticks every 16 ms. A machine that stalls stretches some, and shortens what follows.
    assert (0.36 if sys.platform == "win32" else 0.38) <= max(fourth_s) and min(fourth_s) < 0.9
    assert max(third_s) >= 0.13 and min(third_s) < 0.6


def test_a_duration_ends_the_source_by_itself(lab: Lab) -> None:
    lab.ask(op="start", spec={"source": "embedded", "duration_s": 0.3})
    wait_for(lambda: lab.ask(op="status")["running"] is False)
    assert lab.ask(op="status")["source"] == "embedded"
    report = lab.ask(op="stop")
    # A host that was stalled sent less, and says how late it was.
    late_count = 320 * report["max_late_ns"] / 1e9
    assert 56 - late_count <= report["sent"]["count"] <= 136


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        (b"{not json", "bad_json", "one object a line"),
        (b"[1]", "bad_request", "status"),
        (b"{}", "unknown_op", "start"),
        (b'{"op":"fly"}', "unknown_op", "start"),
        (b'{"op":["stop"]}', "unknown_op", "start"),
        (b'{"op":"start","spec":7}', "bad_spec", "spec"),
        (b'{"op":"start","spec":{"sorce":"auto"}}', "bad_spec", "'source'"),
        (b'{"op":"start","spec":{"source":"warp"}}', "bad_spec", "embedded"),
        (b'{"op":"start","spec":{"source":"arducopter"}}', "bad_spec", "embedded"),
        (b'{"op":"start","spec":{"profile":"nope"}}', "bad_spec", "intervals_320hz"),
        (b'{"op":"start","spec":{"rate_hz":0}}', "bad_spec", "rate_hz"),
        (b'{"op":"start","spec":{"rate_hz":"fast"}}', "bad_spec", "rate_hz"),
        (b'{"op":"start","spec":{"rate_hz":1}}', "bad_spec", "at least"),
        (b'{"op":"start","spec":{"seed":-1}}', "bad_spec", "seed"),
        (b'{"op":"start","spec":{"source":"bulk","size_bytes":3}}', "bad_spec", "1200"),
        (b'{"op":"start","spec":{"source":"tlog"}}', "bad_spec", "path"),
        (b'{"op":"start","spec":{"source":"tlog","path":"/no/such"}}', "bad_tlog", "path"),
        (b'{"op":"stop","expected_count":-1}', "bad_spec", "leave it out"),
    ],
)
def test_wrong_requests_are_answered_and_change_nothing(lab: Lab, line: bytes, code: str, hint: str) -> None:
    answer = lab.raw(line)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert answer["message"] and hint in answer["hint"]
    assert lab.ask(op="status")["source"] is None


def test_a_second_start_is_busy(lab: Lab) -> None:
    lab.ask(op="start", spec={"source": "embedded"})
    answer = lab.ask(op="start", spec={"source": "bulk"})
    assert (answer["ok"], answer["code"]) == (False, "busy")
    lab.ask(op="stop")
    assert lab.ask(op="start", spec={"source": "sink"})["ok"]
    assert lab.ask(op="start")["code"] == "busy"


def test_endless_lines_are_refused_and_the_server_lives_on(lab: Lab) -> None:
    assert lab.raw(b" " * MAX_LINE_BYTES + b"x" * 10)["code"] == "too_long"
    with socket.create_connection(("127.0.0.1", lab.server.port), LIMIT_S) as other:
        other.sendall(b'{"op":"hello"}\n')
        hello = json.loads(other.makefile().readline())
    assert hello["ready"] is True and hello["arducopter"]["available"] is False
    assert len(hello["profile_sha256"]) == 64


def test_an_unforeseen_error_is_an_answer_too() -> None:
    def broken(request: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("boom")

    assert answer_line(b'{"op":"x"}', broken)["code"] == "internal"


def test_taken_ports_are_named(lab: Lab) -> None:
    with pytest.raises(SitlError, match=str(lab.server.port)) as control:
        ControlServer("127.0.0.1", lab.server.port, lab.service.handle)
    assert control.value.code == "port_taken"
    with pytest.raises(SitlError, match=str(lab.sink_port)):
        BulkSink("127.0.0.1", lab.sink_port)


def test_health_follows_the_service(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(port=lab.server.port) == 0
    assert check(port=free_port()) == 1
    assert "unhealthy" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="its cost is told by getrusage(2)")
def test_the_health_check_loads_next_to_nothing(lab: Lab) -> None:
    code = (
        "import sys, resource; sys.argv = ['pqsitl', 'health'];"
        "from pqsitl.__main__ import main; status = main();"
        "heavy = {'pymavlink', 'argparse', 'json', 'pqsitl.cli'} & set(sys.modules);"
        "usage = resource.getrusage(resource.RUSAGE_SELF);"
        "print(status, sorted(heavy), usage.ru_utime + usage.ru_stime, sep=';')"
    )
    run = python_told(code, PQ_CONTROL_PORT=str(lab.server.port))
    status, heavy, cpu_s = run.stdout.strip().split(";")
    assert (status, heavy) == ("0", "[]")
    assert float(cpu_s) < 0.15


@pytest.mark.parametrize(
    ("name", "value"),
    [("PQ_VEHICLE_TARGET", "nowhere"), ("PQ_VEHICLE_TARGET", ""), ("PQ_CONTROL_PORT", "x1")],
)
def test_malformed_settings_name_themselves(name: str, value: str) -> None:
    environment = {"PQ_VEHICLE_TARGET": "127.0.0.1:14550", name: value}
    with pytest.raises(SpecError, match=name):
        Settings.from_environment("vehicle", environment)


def test_an_absent_binary_stops_the_service_unless_it_is_the_images(tmp_path: Path) -> None:
    base = {**ENVIRONMENT, "PQ_VEHICLE_TARGET": "127.0.0.1:9"}
    with pytest.raises(SitlError, match="does not exist"):
        VehicleService(Settings.from_environment("vehicle", {**base, "SITL_BINARY": str(tmp_path / "gone")}))
    image_path = {**base, "SITL_BINARY": "/opt/ardupilot/arducopter", "PQ_SINK_PORT": str(free_port())}
    service = VehicleService(Settings.from_environment("vehicle", image_path))
    try:
        assert service.choose_auto() == "embedded"
    finally:
        service.close()
