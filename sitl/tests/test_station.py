"""The door for a ground station, and the account of what came up: MAVProxy is a socket of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.errors import SitlError
from pqsitl.net import UdpLink
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from pqsitl.station import Framing, StationSource, framed
from pqsitl.visitors import MOST_KINDS, MOST_SENDERS, UplinkAccount


@pytest.fixture
def proxy() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        end.settimeout(5.0)
        yield end


def frame(message: mav.MAVLink_message, system: int = 255, component: int = 190) -> bytes:
    return bytes(message.pack(mav.MAVLink(None, srcSystem=system, srcComponent=component)))


def heartbeat(system: int = 255, component: int = 190) -> bytes:
    return frame(mav.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3), system, component)


def command(number: int) -> bytes:
    return frame(mav.MAVLink_command_long_message(1, 1, number, 0, *([0.0] * 7)))


def test_datagrams_keep_their_boundaries_on_the_stream() -> None:
    stream = b"".join(map(framed, [b"a", b"", b"bcd" * 100]))
    framing = Framing()
    found = [one for at in range(len(stream)) for one in framing.feed(stream[at : at + 1])]
    assert found == [b"a", b"", b"bcd" * 100]


def test_frames_go_both_ways_while_the_source_runs(proxy: socket.socket) -> None:
    link = UdpLink(proxy.getsockname())
    source = StationSource(link, TrafficSpec(source="station"), ("127.0.0.1", 0))
    port = source.start()["port"]
    announced, mavproxy_sees = proxy.recvfrom(1000)
    assert mav.MAVLink(None).parse_buffer(announced)[0].get_type() == "HEARTBEAT"
    with socket.create_connection(("127.0.0.1", port), timeout=5.0) as reader:
        reader.settimeout(5.0)
        while source.connection_count == 0:
            proxy.recvfrom(1000)  # a heartbeat a second, until somebody speaks
        down = heartbeat(1, 1)
        proxy.sendto(down, mavproxy_sees)
        assert reader.recv(1000) == framed(down)
        up = command(400)
        reader.sendall(framed(up))
        while (got := proxy.recvfrom(1000))[0] != up:
            pass
        assert got[1] == mavproxy_sees
    report = source.stop()
    assert (report["uplink_frame_count"], report["downlink_frame_count"]) == (1, 1)
    assert report["error"] is None
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1.0)


def test_a_taken_port_is_refused_at_the_start(proxy: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        source = StationSource(
            UdpLink(proxy.getsockname()), TrafficSpec(), ("127.0.0.1", other.getsockname()[1])
        )
        with pytest.raises(SitlError, match="is taken"):
            source.start()


def test_what_came_up_is_counted_by_sender_and_kind() -> None:
    account = UplinkAccount()
    account.heard(heartbeat() + heartbeat() + command(400))
    account.heard(command(60_000))
    account.heard(heartbeat(254, 1))
    assert account.report() == [
        {"system": 254, "component": 1, "frames": {"HEARTBEAT": 1}},
        {
            "system": 255,
            "component": 190,
            "frames": {
                "COMMAND_LONG 60000": 1,
                "COMMAND_LONG MAV_CMD_COMPONENT_ARM_DISARM": 1,
                "HEARTBEAT": 2,
            },
        },
    ]


def test_a_stranger_cannot_make_the_account_grow() -> None:
    account = UplinkAccount()
    for number in range(MOST_KINDS + 10):
        account.heard(command(50_000 + number))
    for system in range(1, MOST_SENDERS + 10):
        account.heard(heartbeat(system, 7))
    rows = account.report()
    assert len(rows) == MOST_SENDERS + 1
    mine = next(row for row in rows if (row["system"], row["component"]) == (255, 190))
    assert len(mine["frames"]) == MOST_KINDS + 1
    assert mine["frames"]["others"] == 10
    rest = next(row for row in rows if row["system"] is None)
    assert rest["component"] is None
    assert sum(rest["frames"].values()) == 10


def test_the_vehicle_tells_what_came_up_in_its_window(proxy: socket.socket) -> None:
    source = EmbeddedSource(UdpLink(proxy.getsockname()), TrafficSpec(rate_hz=320.0))
    source.start()
    _, vehicle = proxy.recvfrom(1000)
    proxy.sendto(command(400), vehicle)
    while mav.MAVLink(None).parse_buffer(proxy.recvfrom(1000)[0])[0].get_type() != "COMMAND_ACK":
        pass
    report = source.stop()
    assert report["uplink"] == [
        {"system": 255, "component": 190, "frames": {"COMMAND_LONG MAV_CMD_COMPONENT_ARM_DISARM": 1}}
    ]
