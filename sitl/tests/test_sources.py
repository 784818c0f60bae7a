"""Sources on their own: pacing after a stall, failures that reach the report, refused datagrams."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from pqsitl import sources
from pqsitl.net import UdpLink, parse_address, udp_is_bound, udp_socket_state
from pqsitl.sources import BulkSource, EmbeddedSource, Source
from pqsitl.spec import TrafficSpec
from pqsitl.uplink import STAMP_OFFSET_NS, UplinkProbe
from waiting import LIMIT_S, wait_for


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        end.settimeout(LIMIT_S)
        yield end


class FakeTime:
    """Virtual clock whose sleep can stall once."""

    def __init__(self, stall_at_ns: int, stall_ns: int) -> None:
        self.now_ns = 0
        self._stall_at_ns, self._stall_ns = stall_at_ns, stall_ns

    def monotonic_ns(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def time_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        if self._stall_ns and self.now_ns >= self._stall_at_ns:
            self.now_ns += self._stall_ns
            self._stall_ns = 0


def test_bulk_catches_up_at_twice_the_rate_and_loses_nothing(
    target: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeTime(stall_at_ns=300_000_000, stall_ns=100_000_000)
    sent_ns: list[int] = []

    class Recording(BulkSource):
        def send(self, datagram: bytes) -> None:
            sent_ns.append(clock.now_ns)

    link = UdpLink(target.getsockname())
    source = Recording(link, TrafficSpec(source="bulk", rate_hz=2000.0, duration_s=1.0))
    source._deadline_ns = 1_000_000_000
    monkeypatch.setattr(sources, "time", clock)
    source.run()
    link.close()
    assert len(sent_ns) == pytest.approx(2000, abs=4)
    assert source.max_late_ns >= 100_000_000
    per_ms: dict[int, int] = {}
    for moment in sent_ns:
        per_ms[moment // 1_000_000] = per_ms.get(moment // 1_000_000, 0) + 1
    bursts = sorted(per_ms.values())
    assert bursts[-1] <= 64 + 4, "a stall of 100 ms must not become a burst of 200"
    assert bursts[-2] <= 6, "and what is left comes at about twice the rate"


def test_bulk_keeps_its_rate_where_every_sleep_is_late(
    target: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy(FakeTime):
        def sleep(self, seconds: float) -> None:
            self.now_ns += round(seconds * 1e9) + 6_000_000

    clock = Busy(0, 0)
    link = UdpLink(target.getsockname())
    source = BulkSource(link, TrafficSpec(source="bulk", rate_hz=600.0))
    source._deadline_ns = 1_000_000_000
    monkeypatch.setattr(sources, "time", clock)
    source.run()
    link.close()
    assert source.account.count + source.unsent_count == pytest.approx(600, abs=6)


def test_a_source_that_dies_says_so(target: socket.socket, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Source):
        name = "broken"

        def detail(self) -> dict[str, object]:
            return {}

        def run(self) -> None:
            raise RuntimeError("propeller lost")

    source = Broken(UdpLink(target.getsockname()), TrafficSpec())
    source.start()
    assert source.stop()["error"] == "RuntimeError: propeller lost"
    assert "propeller lost" in capsys.readouterr().err


def test_a_missing_peer_is_counted_and_does_not_stop_the_source(target: socket.socket) -> None:
    address = target.getsockname()
    target.close()
    link = UdpLink(address)
    source = EmbeddedSource(link, TrafficSpec(rate_hz=320))
    source.start()
    wait_for(lambda: source.account.count > 100 and (link.refused_count is None or link.refused_count > 10))
    report = source.stop()
    link.close()
    assert report["error"] is None


def test_a_request_to_the_vehicle_is_answered_in_real_time(target: socket.socket) -> None:
    link = UdpLink(target.getsockname())
    source = EmbeddedSource(link, TrafficSpec())
    source.start()
    _, address = target.recvfrom(2048)
    probe = UplinkProbe(time.monotonic_ns())
    (request,) = [f for f in probe.poll(time.monotonic_ns() + 200_000_000) if f[7] == 111]
    target.sendto(request, address)
    while not probe.rtt_ns:
        probe.receive(target.recv(2048), time.monotonic_ns() + 200_000_000)
    report = source.stop()
    link.close()
    assert report["answer_count"] == 1


def test_the_probe_takes_only_its_own_replies_and_never_catches_up() -> None:
    from pymavlink.dialects.v20 import ardupilotmega as mav

    start_ns = 10**12
    probe = UplinkProbe(start_ns)
    assert len(probe.poll(start_ns)) == 1
    due_ns = probe.next_ns
    (request,) = probe.poll(due_ns)
    assert len(request) == 28
    vehicle = mav.MAVLink(None, srcSystem=1, srcComponent=1)
    for stamp in (due_ns + STAMP_OFFSET_NS + 1, due_ns):
        probe.receive(bytes(mav.MAVLink_timesync_message(5, stamp).pack(vehicle)), due_ns + 1000)
    assert probe.rtt_ns == []
    reply = bytes(mav.MAVLink_timesync_message(5, due_ns + STAMP_OFFSET_NS).pack(vehicle))
    assert len(reply) == 28
    for _ in range(2):
        probe.receive(reply, due_ns + 750_000)
    assert probe.rtt_ns == [750_000], "a duplicated reply is one sample"
    (answer,) = probe.receive(bytes(mav.MAVLink_timesync_message(0, 42).pack(vehicle)), due_ns)
    assert answer[7] == 111
    assert len(probe.poll(start_ns + 60 * 10**9)) == 2, "one heartbeat and one request, however long it slept"


def test_addresses_and_socket_tables(target: socket.socket) -> None:
    from pqsitl.errors import SpecError

    assert parse_address("198.18.1.11:14550", "X") == ("198.18.1.11", 14550)
    for text in ("nowhere", ":80", "host:0", "host:99999", "host:x"):
        with pytest.raises(SpecError, match="X"):
            parse_address(text, "X")
    port = target.getsockname()[1]
    assert udp_is_bound(port)
    if sys.platform == "win32":
        assert udp_socket_state(port) is None
        return
    assert udp_socket_state(port) == (0, 0)
    target.sendto(b"waiting", ("127.0.0.1", port))
    state = udp_socket_state(port)
    assert state is not None and state[0] > 0
    target.recv(100)
