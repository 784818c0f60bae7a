"""The agent over RPC: states, windows with a traffic service, fetch, hello, watchdog, telemetry child."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint_kit import SUITE, Lab, Side, lab
from rpc_kit import tcp_service

from pqbase.patience import patiently
from pqtunnel.agent import telemetry as telemetry_module
from pqtunnel.agent.drivers import compose
from pqtunnel.agent.drivers.base import DriverError, NoTraffic
from pqtunnel.agent.drivers.compose import ComposeTraffic
from pqtunnel.agent.flightlog import FlightLog
from pqtunnel.agent.lineblock import LineBlock
from pqtunnel.agent.state import WATCHDOG_S
from pqtunnel.agent.telemetry import Telemetry
from pqtunnel.config import EndpointConfig
from pqtunnel.rpc import RemoteError, fetch_all
from waiting import LIMIT_S, free_port, wait_until


def _code(side: Side, method: str, **params: Any) -> str:
    with pytest.raises(RemoteError) as caught:
        side.call(method, **params)
    return caught.value.code


@pytest.mark.native
def test_states_are_enforced_over_rpc(lab_pair: Lab) -> None:
    drone = lab_pair.drone
    assert _code(drone, "start", cell_id="c") == "bad_state"
    assert _code(drone, "stop", cell_id="c") == "bad_state"
    assert _code(drone, "fetch", cell_id="c", stream="spans", since=0, limit=1) == "bad_state"
    assert drone.call("counters")["counters"] == {}
    assert drone.call("prepare", cell_id="c", suite_id=SUITE) == {"state": "prepared"}
    assert _code(drone, "prepare", cell_id="d", suite_id=SUITE) == "bad_state"
    assert _code(drone, "event", cell_id="c", kind="handshake_block", count=1) == "bad_state"
    assert _code(drone, "start", cell_id="d") == "unknown_cell"
    assert drone.call("start", cell_id="c") == {"state": "running"}
    assert _code(drone, "event", cell_id="c", kind="nothing") == "bad_params"
    assert _code(drone, "event", cell_id="c", kind="traffic_run", window="w", duration_s=1) == "bad_window"
    assert _code(lab_pair.gcs, "event", cell_id="c", kind="handshake_block") == "bad_state"
    assert drone.call("stop", cell_id="c")["state"] == "idle"
    assert _code(drone, "fetch", cell_id="other", stream="spans") == "unknown_cell"
    assert _code(drone, "fetch", cell_id="c", stream="nothing") == "unknown_stream"
    assert drone.call("fetch", cell_id="c", stream="spans") == {"lines": [], "next": 0, "end": True}


@pytest.mark.native
def test_only_the_drone_dials_and_plain_is_refused(lab_pair: Lab) -> None:
    lab_pair.prepare()
    assert _code(lab_pair.gcs, "event", cell_id="cell-1", kind="handshake_block", count=1) == "wrong_role"
    lab_pair.stop()
    assert _code(lab_pair.gcs, "prepare", cell_id="x", suite_id=SUITE, allow_plain=True) == "plain_refused"


@pytest.mark.native
def test_repeated_handshake_block_runs_once(lab_pair: Lab) -> None:
    lab_pair.prepare()
    params = {"cell_id": "cell-1", "kind": "handshake_block", "count": 4, "min_count": 1, "max_s": LIMIT_S}
    first = lab_pair.drone.rpc.call("event", params, request_id="block-1")
    with lab_pair.drone.client() as other:
        assert other.call("event", params, request_id="block-1") == first
    assert lab_pair.drone.counters()["hs_completed"] == 4


@pytest.mark.native
def test_windows_keep_exact_time_and_their_own_counts(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.handshakes()
    lasted_ns = []
    for window, count in (("traffic", 5), ("bulk-600", 3)):
        lab_pair.open(window)
        for n in range(count):
            lab_pair.drone.plain.send(b"%d" % n)
            assert lab_pair.gcs.plain.receive() == b"%d" % n
        assert _code(lab_pair.gcs, "event", cell_id="cell-1", kind="traffic_open", window="x") == "bad_window"
        done = lab_pair.event("traffic_run", window=window, duration_s=0.4)
        lab_pair.gcs.call("event", cell_id="cell-1", kind="traffic_close", window=window)
        lasted_ns.append(done["close_ns"] - done["open_ns"])
    # A machine that stalls closes a window late, none early.
    assert 0.399e9 <= min(lasted_ns) <= 0.5e9
    drone, gcs = lab_pair.stop()
    assert [drone["windows"][w]["tx_data"] for w in ("traffic", "bulk-600")] == [5, 3]
    assert [gcs["windows"][w]["rx_ok"] for w in ("traffic", "bulk-600")] == [5, 3]
    assert drone["tx_data"] == gcs["rx_ok"] == 8
    events = [json.loads(line) for line in fetch_all(lab_pair.drone.rpc, "cell-1", "events")]
    if sys.platform == "win32":
        assert "no kernel receive timestamps" in events.pop(1)["reason"]
    assert [row["event"] for row in events] == [
        "prepare",
        "start",
        "gate_open",
        "gate_close",
        "gate_open",
        "gate_close",
        "stop",
    ]


@pytest.mark.native
def test_a_new_controller_can_end_the_cell_of_a_dead_one(lab_pair: Lab) -> None:
    lab_pair.prepare(cell="orphan")
    lab_pair.drone.rpc.close()
    with lab_pair.drone.client() as fresh:
        hello = fresh.call("counters")
        assert (hello["state"], hello["cell_id"]) == ("running", "orphan")
        assert fresh.call("stop", {"cell_id": "orphan"})["state"] == "idle"


@pytest.mark.native
def test_stop_ends_a_running_window_early(lab_pair: Lab) -> None:
    lab_pair.flowing()
    outcome: list[str] = []

    def run() -> None:
        with lab_pair.drone.client() as client:
            try:
                client.call(
                    "event",
                    {"cell_id": "cell-1", "kind": "traffic_run", "window": "traffic", "duration_s": 30},
                )
            except RemoteError as error:
                outcome.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    lab_pair.drone.call("stop", cell_id="cell-1")
    thread.join(LIMIT_S)
    assert outcome == ["bad_state"], "a window that runs to its end is no error"


@pytest.mark.native
def test_watchdog_gives_an_abandoned_cell_up(lab_pair: Lab) -> None:
    lab_pair.prepare()
    lab_pair.drone.agent.state._touched_s -= WATCHDOG_S + 1  # as if a minute had passed
    assert wait_until(lambda: lab_pair.drone.agent.state.state == "idle")
    rows = [json.loads(line) for line in fetch_all(lab_pair.drone.rpc, "cell-1", "events")]
    assert [row["event"] for row in rows][-2:] == ["watchdog", "stop"]
    assert any("watchdog" in line for line in fetch_all(lab_pair.drone.rpc, "cell-1", "log"))


@pytest.mark.native
def test_counters_file_is_fresh_and_whole(lab_pair: Lab) -> None:
    path = lab_pair.drone.config.state_dir / "counters.json"
    assert wait_until(path.is_file)
    stamps: set[int] = set()

    def five_within_a_second() -> bool:
        stamps.add(json.loads(patiently(path.read_bytes))["t_ns"])  # never half a file
        return any(sum(first <= stamp <= first + 10**9 for stamp in stamps) >= 5 for first in stamps)

    begin_s = time.monotonic()
    assert wait_until(lambda: five_within_a_second() and time.monotonic() - begin_s > 1.0)
    lab_pair.prepare()
    assert wait_until(lambda: json.loads(patiently(path.read_bytes))["state"] == "running")
    content = json.loads(patiently(path.read_bytes))
    assert content["cell_id"] == "cell-1"
    assert content["counters"]["tx_data"] == 0


@pytest.mark.native
def test_hello_describes_the_host(key_folder: Path, tmp_path: Path) -> None:
    gcs = Side("gcs", key_folder, tmp_path, facts=True)
    try:
        hello = gcs.rpc.call("hello", {}, timeout_s=60)
    finally:
        gcs.close()
    assert (hello["role"], hello["state"], hello["ring"]) == ("gcs", "idle", "lab")
    core = hello["providers"]["core"]["version"]
    assert (hello["dataplane"], hello["dataplane_asked"]) == ("native" if core else "python", "native")
    assert hello["selftest"]["ok"] is True
    assert sum(suite_id.startswith("cs-") for suite_id in hello["suites"]) == 72
    assert hello["suites"]["xs-x25519-aesgcm-ed25519"]["status"] == "available"
    assert "liboqs" in hello["suites"]["xs-mlkem768-aesgcm-slhdsa192s"]["reason"]
    assert hello["suites"][SUITE]["status"] == "available"
    assert hello["providers"]["liboqs"]["version"]
    assert hello["host"]["machine"]
    assert hello["traffic"] == {"available": False, "reason": "PQ_TRAFFIC_CONTROL is not set"}


class TrafficService:
    """Stands in for the traffic service: same commands, sends datagrams once started."""

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.refuse = False
        self.running = False
        self.on_start: Any = lambda: None

    def __call__(self, sock: socket.socket) -> None:
        request = json.loads(sock.makefile().readline())
        self.log.append(request)
        answer = self._answer(request["op"])
        sock.sendall(json.dumps(answer).encode() + b"\n")
        if "source" in answer:
            self.on_start()

    def _answer(self, op: str) -> dict[str, Any]:
        if op == "start" and (self.refuse or self.running):
            code = "no_source" if self.refuse else "busy"
            return {"ok": False, "code": code, "message": "cannot start", "hint": "x"}
        if op == "start":
            self.running = True
            return {"ok": True, "source": "embedded", "detail": {"rate_hz": 320}}
        if op == "stop":
            self.running = False
            return {"ok": True, "sent": {"count": 7}, "received": {"count": 0}}
        if op == "recording":
            return {"ok": True, "chunks": ["Zmlyc3Q=", "c2Vjb25k"], "next": 2, "end": True, "total": 2}
        return {"ok": True, "sources": ["embedded"]}


@pytest.fixture
def with_traffic(key_folder: Path, tmp_path: Path) -> Iterator[tuple[Lab, TrafficService]]:
    service = TrafficService()
    with tcp_service(service) as address, lab(key_folder, tmp_path) as pair:
        pair.drone.agent.methods._traffic = ComposeTraffic(address)
        pair.drone.agent.methods._streams.flight_log = FlightLog(ComposeTraffic(address))
        yield pair, service


@pytest.mark.native
def test_window_starts_its_source_and_reports_it(with_traffic: tuple[Lab, TrafficService]) -> None:
    pair, service = with_traffic
    pair.prepare()
    pair.handshakes()
    service.on_start = lambda: pair.drone.plain.send(b"the source's first")
    spec = {"source": "auto", "rate_hz": 320, "seed": 7}
    opened = pair.drone.call(
        "event",
        cell_id="cell-1",
        kind="traffic_open",
        window="traffic",
        route="mavproxy",
        spec=spec,
        spec_settle_s=0.1,
    )
    assert opened["source"] == "embedded"
    ran = pair.drone.call("event", cell_id="cell-1", kind="traffic_run", window="traffic", duration_s=0.1)
    assert ran["source_report"] == {"sent": {"count": 7}, "received": {"count": 0}}
    assert ran["open_ns"] == opened["open_ns"]
    assert [request["op"] for request in service.log] == ["start", "stop"]
    assert service.log[0]["spec"] == spec
    assert pair.drone.counters()["gated"] == 1  # the first datagram came before the gate opened


@pytest.mark.native
def test_a_recorded_window_is_fetched_and_no_other(with_traffic: tuple[Lab, TrafficService]) -> None:
    pair, service = with_traffic
    service.on_start = lambda: pair.drone.plain.send(b"x")
    for cell_id, record in (("cell-1", True), ("cell-2", False)):
        pair.prepare(cell=cell_id)
        spec = {"source": "uplink", **({"record": True} if record else {})}
        pair.drone.call("event", cell_id=cell_id, kind="traffic_open", window="traffic", spec=spec)
        pair.drone.call("event", cell_id=cell_id, kind="traffic_run", window="traffic", duration_s=0)
        for side in (pair.drone, pair.gcs):
            side.call("stop", cell_id=cell_id)
        page = pair.drone.call("fetch", cell_id=cell_id, stream="tlog")
        if record:
            assert page == {"lines": ["Zmlyc3Q=", "c2Vjb25k"], "next": 2, "end": True}
        else:
            assert page["lines"] == [] and "recorded" in page["reason"]


@pytest.mark.native
def test_refused_source_leaves_no_window_open(with_traffic: tuple[Lab, TrafficService]) -> None:
    pair, service = with_traffic
    pair.prepare()
    service.refuse = True
    assert (
        _code(
            pair.drone,
            "event",
            cell_id="cell-1",
            kind="traffic_open",
            window="traffic",
            spec={"source": "auto"},
        )
        == "no_source"
    )
    assert not pair.drone.agent.endpoint.dataplane.gate_is_open
    service.refuse = False
    service.on_start = lambda: pair.drone.plain.send(b"x")
    pair.drone.call("event", cell_id="cell-1", kind="traffic_open", window="again", spec={"source": "auto"})
    pair.drone.call("stop", cell_id="cell-1")
    assert service.log[-1]["op"] == "stop"  # stop of the cell stops the source too


@pytest.mark.native
def test_a_source_left_by_a_dead_agent_is_replaced(with_traffic: tuple[Lab, TrafficService]) -> None:
    pair, service = with_traffic
    service.running = True
    service.on_start = lambda: pair.drone.plain.send(b"x")
    pair.prepare()
    pair.drone.call("event", cell_id="cell-1", kind="traffic_open", window="w", spec={"source": "auto"})
    assert [request["op"] for request in service.log] == ["start", "stop", "start"]
    assert any("earlier agent" in line for line in fetch_all(pair.drone.rpc, "cell-1", "events"))


@pytest.mark.native
def test_an_agent_that_ends_takes_its_source_with_it(key_folder: Path, tmp_path: Path) -> None:
    service = TrafficService()
    with tcp_service(service) as address:
        with lab(key_folder, tmp_path) as pair:
            pair.drone.agent.methods._traffic = ComposeTraffic(address)
            service.on_start = lambda: pair.drone.plain.send(b"x")
            pair.prepare()
            pair.drone.call(
                "event", cell_id="cell-1", kind="traffic_open", window="w", spec={"source": "auto"}
            )
        assert service.log[-1]["op"] == "stop"
        assert not service.running


def test_driver_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    address = ("127.0.0.1", free_port())
    with pytest.raises(DriverError) as caught:
        ComposeTraffic(address).stop()
    assert caught.value.code == "traffic_unreachable"
    assert ComposeTraffic(address).facts()["available"] is False
    with tcp_service(lambda sock: sock.sendall(b"hello?\n")) as address, pytest.raises(DriverError):
        ComposeTraffic(address).stop()
    monkeypatch.setattr(compose, "ANSWER_TIMEOUT_S", 0.2)
    over = threading.Event()
    with tcp_service(lambda sock: over.wait(LIMIT_S) and None) as address:
        with pytest.raises(DriverError) as caught:
            ComposeTraffic(address).stop()
        over.set()
    assert caught.value.code == "traffic_timeout"
    with pytest.raises(DriverError) as caught:
        NoTraffic().start({})
    assert caught.value.code == "no_traffic_service"


def _telemetry(tmp_path: Path, notes: list[str], command: list[str]) -> Telemetry:
    config = EndpointConfig.from_environment(
        "gcs", {"PQ_PLAINTEXT_TARGET": "127.0.0.1:1", "PQ_STATE": str(tmp_path)}
    )
    telemetry = Telemetry(config, tmp_path / "counters.json", notes.append)
    telemetry.command = lambda: command  # type: ignore[method-assign]
    return telemetry


def test_dead_sampler_is_restarted_and_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    code = "import sys; sys.stderr.write('sensor gone'); sys.exit(3)"
    telemetry = _telemetry(tmp_path, notes, [sys.executable, "-c", code])
    telemetry.open()
    try:
        assert wait_until(lambda: telemetry.restarts >= 2)
    finally:
        telemetry.close()
    assert "sensor gone" in notes[0] and "restart 1" in notes[0]


def test_absent_sampler_is_said_once_and_not_retried(tmp_path: Path) -> None:
    notes: list[str] = []
    telemetry = _telemetry(tmp_path, notes, [sys.executable, "-m", "no_such_package_here"])
    telemetry.open()
    try:
        assert wait_until(lambda: telemetry.reason == "pqtelemetry is not installed on this host")
    finally:
        telemetry.close()
    assert len(notes) == 1
    assert telemetry.restarts == 0
    assert telemetry.lines(0, 2**63).lines() == []


def test_samples_of_all_segments_are_one_row_of_lines(tmp_path: Path) -> None:
    telemetry = _telemetry(tmp_path, [], [])
    newest = telemetry._out
    newest.parent.mkdir(parents=True, exist_ok=True)
    whole = [f"pq_cpu,host=drone sys=1 {stamp}" for stamp in range(100, 1300)]
    for place in range(12):
        path = newest.with_name(f"{newest.name}.{11 - place}") if place < 11 else newest
        path.write_bytes("".join(f"{line}\n" for line in whole[place * 100 : place * 100 + 100]).encode())
    assert telemetry.lines(0, 2**63).lines() == whole
    assert telemetry.lines(350, 1249).lines() == whole[250:1150]
    assert telemetry.lines(1250, 1260).lines() == whole[1150:1161]


@pytest.mark.native
def test_a_prepared_cell_does_not_hold_the_samples_of_the_last_one(lab_pair: Lab) -> None:
    lab_pair.prepare()
    streams = lab_pair.drone.agent.methods._streams
    line = "pq_cpu,host=drone sys=1 5"
    streams._telemetry.lines = lambda start_ns, end_ns: LineBlock(f"{line}\n".encode())  # type: ignore[method-assign]
    lab_pair.stop()
    assert fetch_all(lab_pair.drone.rpc, "cell-1", "telemetry") == [line]
    assert len(streams._cached) == 1 and streams._cached_for is not None, "paging reads the file once"
    lab_pair.prepare()
    assert len(streams._cached) == 0 and streams._cached_for is None
    lab_pair.stop()


def test_a_segment_that_is_turned_over_meanwhile_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = _telemetry(tmp_path, [], [])
    newest = telemetry._out
    newest.parent.mkdir(parents=True, exist_ok=True)
    newest.write_bytes(b"pq_cpu,host=drone sys=1 5\n")
    real, turned = telemetry_module._lines_between, []

    def read(path: Path, start_ns: int, end_ns: int) -> tuple[bytes, bool]:
        found = real(path, start_ns, end_ns)
        if not turned:
            turned.append(path)
            newest.replace(newest.with_name(newest.name + ".1"))
            newest.write_bytes(b"pq_cpu,host=drone sys=2 6\n")
        return found

    monkeypatch.setattr(telemetry_module, "_lines_between", read)
    assert telemetry.lines(0, 9).lines() == ["pq_cpu,host=drone sys=1 5", "pq_cpu,host=drone sys=2 6"]


def test_closing_ends_the_sampler(tmp_path: Path) -> None:
    telemetry = _telemetry(tmp_path, [], [sys.executable, "-c", "import time; time.sleep(60)"])
    telemetry.open()
    assert wait_until(lambda: telemetry._child is not None)
    child = telemetry._child
    assert child is not None
    telemetry.close()
    assert child.poll() is not None
