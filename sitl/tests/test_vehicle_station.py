"""A scripted ground station against the embedded vehicle over UDP: pymavlink asks what stations ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymavlink import mavftp, mavutil
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import mission
from pqsitl.flight import GUIDED, RTL
from pqsitl.net import UdpLink
from pqsitl.sources import EmbeddedSource
from pqsitl.spec import TrafficSpec
from virtual_ground import plan_item, square_plan
from waiting import free_port

pytestmark = pytest.mark.linux("pymavlink's own UDP client, not tried under wine")
SPEEDUP = 20
FENCE, RALLY = mav.MAV_MISSION_TYPE_FENCE, mav.MAV_MISSION_TYPE_RALLY


class Station:
    """pymavlink's client with a memory: everything heard is kept until it is asked for."""

    def __init__(self, link: Any) -> None:
        self.link = link
        self.texts: list[str] = []

    def until(self, wanted: Callable[[Any], bool], limit_s: float = 120.0) -> Any:
        """The first message that is wanted."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            message = self.link.recv_match(blocking=True, timeout=0.2)
            if message is None:
                continue
            if message.get_type() == "STATUSTEXT":
                self.texts.append(message.text)
            if wanted(message):
                return message
        raise AssertionError(f"the awaited message did not come; texts: {self.texts}")

    def hear(self, kind: str, limit_s: float = 120.0) -> Any:
        return self.until(lambda message: message.get_type() == kind, limit_s)

    def command(self, number: int, *parameters: float) -> int:
        values = (*parameters, *([0.0] * (7 - len(parameters))))
        self.link.mav.command_long_send(1, 1, number, 0, *values)
        ack = self.until(lambda m: m.get_type() == "COMMAND_ACK" and m.command == number)
        return int(ack.result)

    def upload(self, items: list[Any], mission_type: int = 0) -> int:
        self.link.mav.mission_count_send(1, 1, len(items), mission_type)
        while True:
            message = self.until(lambda m: m.get_type() in ("MISSION_REQUEST_INT", "MISSION_ACK"))
            if message.get_type() == "MISSION_ACK":
                return int(message.type)
            self.link.mav.send(items[message.seq])

    def download(self, mission_type: int = 0) -> list[Any]:
        self.link.mav.mission_request_list_send(1, 1, mission_type)
        items = []
        for seq in range(self.hear("MISSION_COUNT").count):
            self.link.mav.mission_request_int_send(1, 1, seq, mission_type)
            items.append(self.hear("MISSION_ITEM_INT"))
        return items


@pytest.fixture(params=[1])
def station(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Station]:
    """A station and a vehicle on the ground; the parameter is how much faster than real time it lives."""
    speedup = request.param
    monkeypatch.setenv("MAVLINK20", "1")
    monkeypatch.setattr(mission, "REQUEST_RETRY_NS", mission.REQUEST_RETRY_NS * speedup)
    port = free_port()
    client = mavutil.mavlink_connection(
        f"udpin:127.0.0.1:{port}", source_system=255, source_component=190, dialect="ardupilotmega"
    )
    link = UdpLink(("127.0.0.1", port))
    spec = TrafficSpec(source="embedded", rate_hz=10.0)
    streams = "default" if speedup == 1 else "measured"  # a slow reader must not lose what it waits for
    source = EmbeddedSource(link, spec, streams, speedup=speedup, airborne=False)
    source.start()
    try:
        client.wait_heartbeat()
        yield Station(client)
        assert source.running, "the vehicle goes on"
    finally:
        report = source.stop()
        client.close()
        link.close()
    assert report["error"] is None


def arm(station: Station) -> None:
    assert station.command(mav.MAV_CMD_DO_SET_MODE, 1, GUIDED) == 0
    assert station.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0


def landed(message: Any) -> bool:
    armed = mav.MAV_MODE_FLAG_SAFETY_ARMED
    return (
        message.get_type() == "HEARTBEAT" and message.get_srcSystem() == 1 and not message.base_mode & armed
    )


def test_connecting(station: Station) -> None:
    station.link.mav.heartbeat_send(mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, 4)
    assert station.hear("HOME_POSITION").latitude == -353632620
    assert station.command(mav.MAV_CMD_REQUEST_MESSAGE, mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION) == 0
    assert station.hear("AUTOPILOT_VERSION").flight_sw_version >> 24 == 4
    assert any("not ArduPilot" in text for text in station.texts)
    for kind in ("GPS_RAW_INT", "BATTERY_STATUS", "EKF_STATUS_REPORT", "SYS_STATUS", "MISSION_CURRENT"):
        station.hear(kind)
    station.link.mav.param_request_list_send(1, 1)
    first = station.until(lambda m: m.get_type() == "PARAM_VALUE" and m.param_index == 0)
    names = {first.param_id}
    while len(names) < first.param_count:
        value = station.hear("PARAM_VALUE")
        if value.param_index != 65_535:
            names.add(value.param_id)
    assert len(names) >= 200
    station.link.mav.param_set_send(1, 1, b"WPNAV_SPEED", 800.0, 9)
    value = station.until(lambda m: m.get_type() == "PARAM_VALUE" and m.param_id == "WPNAV_SPEED")
    assert value.param_value == 800.0
    station.link.mav.log_request_list_send(1, 1, 0, 0xFFFF)
    assert station.hear("LOG_ENTRY").num_logs == 0
    assert station.command(31_999) == mav.MAV_RESULT_UNSUPPORTED


@pytest.mark.parametrize("station", [SPEEDUP], indirect=True)
def test_a_mission_is_sent_flown_to_its_end_and_another_flight_returns(station: Station) -> None:
    plan = square_plan()
    assert station.upload(plan) == 0
    assert [(m.command, m.x, m.z) for m in station.download()] == [(m.command, m.x, m.z) for m in plan]
    arm(station)
    assert station.command(mav.MAV_CMD_MISSION_START) == 0
    seen: list[int] = []

    def last_reached(message: Any) -> bool:
        if message.get_type() == "MISSION_ITEM_REACHED":
            seen.append(message.seq)
        return seen[-1:] == [7]

    station.until(last_reached)
    assert seen == [1, 2, 4, 5, 6, 7]
    station.until(landed)
    arm(station)
    assert station.command(mav.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, 8) == 0
    station.until(lambda m: m.get_type() == "GLOBAL_POSITION_INT" and m.relative_alt > 7_000)
    assert station.command(mav.MAV_CMD_DO_SET_MODE, 1, RTL) == 0
    station.until(landed)
    assert station.command(mav.MAV_CMD_REQUEST_MESSAGE, mav.MAVLINK_MSG_ID_EXTENDED_SYS_STATE) == 0
    assert station.hear("EXTENDED_SYS_STATE").landed_state == mav.MAV_LANDED_STATE_ON_GROUND


def test_fence_and_rally_points_make_the_round_trip(station: Station) -> None:
    corner = mav.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_INCLUSION
    fence = [plan_item(n, corner, 9.0 * n + 9, params=(3, 0, 0, 0), mission_type=FENCE) for n in range(3)]
    rally = [plan_item(0, mav.MAV_CMD_NAV_RALLY_POINT, 70.0, 20.0, mission_type=RALLY)]
    for mission_type, items in ((FENCE, fence), (RALLY, rally)):
        assert station.upload(items, mission_type) == 0
        assert [(m.command, m.x) for m in station.download(mission_type)] == [(m.command, m.x) for m in items]


def test_parameters_and_mission_as_files(station: Station, tmp_path: Path) -> None:
    client = mavftp.MAVFTP(station.link, target_system=1, target_component=1)
    values, defaults = tmp_path / "values.parm", tmp_path / "defaults.parm"
    client.cmd_getparams([str(values), str(defaults)])
    assert client.process_ftp_reply("GetParams", timeout=60).error_code == mavftp.FtpError.Success
    lines = [line for line in values.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) >= 200
    assert station.upload(square_plan()) == 0
    got: list[bytes] = []
    client.cmd_get(["@MISSION/mission.dat"], callback=lambda file: got.append(file.read()))
    client.process_ftp_reply("OpenFileRO", timeout=60)
    assert len(got[0]) == 10 + 38 * len(square_plan())
    listed = client.cmd_list(["@MISSION"])
    assert listed.error_code == mavftp.FtpError.Success
    assert sorted(entry.name for entry in client.list_result) == ["fence.dat", "mission.dat", "rally.dat"]


def test_a_flood_and_two_thousand_waypoints(station: Station) -> None:
    assert station.upload(square_plan()) == 0
    station.link.mav.mission_count_send(1, 1, 2_000, 0)
    assert station.hear("MISSION_ACK").type == mav.MAV_MISSION_NO_SPACE
    for number in range(2_000):
        station.link.mav.command_long_send(1, 1, number, 0, 1, 1, 1, 1, 1, 1, 1)
        station.link.mav.param_request_list_send(1, 1)
        if number % 50 == 49:
            station.until(lambda m, last=number: m.get_type() == "COMMAND_ACK" and m.command == last)
    most = [plan_item(n, mav.MAV_CMD_NAV_WAYPOINT, n + 1.0, 10.0) for n in range(724)]
    assert station.upload(most) == 0
    assert len(station.download()) == 724
    station.hear("HEARTBEAT")
