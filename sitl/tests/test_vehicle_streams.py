"""What the embedded vehicle sends beside the measured mix, and only when it is asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.errors import SpecError
from pqsitl.profile import load_profile
from pqsitl.settings import Settings
from pqsitl.streams import ALL_BUILDERS, MESSAGE_IDS, extra_periods_us
from pqsitl.vehicle import EmbeddedVehicle
from virtual_ground import START_NS, Ground

HEARTBEAT = mav.MAVLink_heartbeat_message(mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3)
WANTED = ("SYS_STATUS", "GPS_RAW_INT", "BATTERY_STATUS", "EKF_STATUS_REPORT", "MISSION_CURRENT")


def station(streams: str) -> Ground:
    return Ground(EmbeddedVehicle(load_profile(), 320.0, 1, START_NS, streams=streams))


def kinds(heard: list[Any]) -> Counter[str]:
    return Counter(message.get_type() for message in heard)


def test_a_listening_station_adds_nothing_to_the_measured_mix() -> None:
    ground = station("measured")
    assert ground.ask(HEARTBEAT) == []
    assert set(kinds(ground.wait(20.0))) <= set(load_profile().sizes)


def test_the_default_streams_come_from_the_start_beside_the_mix() -> None:
    ground = station("default")
    ground.wait(0.5)
    heard = kinds(ground.wait(20.0))
    for name in WANTED:
        assert heard[name] == pytest.approx(4 * 20, abs=4), name
    assert heard["ATTITUDE"] == pytest.approx(1994, abs=10), "the profile's own keep their rate"
    assert ground.vehicle.schedule.overridden == []
    ground.command(mav.MAV_CMD_SET_MESSAGE_INTERVAL, mav.MAVLINK_MSG_ID_SYS_STATUS, 100_000)
    assert ground.vehicle.schedule.overridden == ["SYS_STATUS"]
    ground.command(mav.MAV_CMD_SET_MESSAGE_INTERVAL, mav.MAVLINK_MSG_ID_SYS_STATUS, 0)
    assert ground.vehicle.schedule.overridden == []
    assert kinds(ground.wait(10.0))["SYS_STATUS"] == pytest.approx(40, abs=2)


def test_a_new_station_is_greeted_once_where_the_default_streams_flow() -> None:
    ground = station("default")
    greeting = ground.ask(HEARTBEAT)
    assert [m.get_type() for m in greeting[:2]] == ["HOME_POSITION", "GPS_GLOBAL_ORIGIN"]
    assert "not ArduPilot" in " ".join(m.text for m in greeting[2:])
    assert ground.ask(HEARTBEAT) == []
    assert Ground(ground.vehicle, 254).ask(HEARTBEAT) != []


def test_stream_requests_add_messages_and_leave_the_profiles_rates_alone() -> None:
    ground = station("measured")
    assert ground.ask(mav.MAVLink_request_data_stream_message(1, 1, 0, 5, 1)) == []
    heard = kinds(ground.wait(10.0))
    for name in WANTED:
        assert heard[name] == pytest.approx(50, abs=2), name
    assert heard["ATTITUDE"] == pytest.approx(997, abs=5)
    assert "SYS_STATUS" in ground.vehicle.schedule.overridden
    ground.ask(mav.MAVLink_request_data_stream_message(1, 1, mav.MAV_DATA_STREAM_EXTENDED_STATUS, 5, 0))
    heard = kinds(ground.wait(10.0))
    assert heard["SYS_STATUS"] == 0
    assert heard["BATTERY_STATUS"] == pytest.approx(50, abs=2)
    ground.ask(mav.MAVLink_request_data_stream_message(1, 1, 0, 60_000, 1))
    assert kinds(ground.wait(1.0))["SYS_STATUS"] == pytest.approx(50, abs=2), "no faster than 50 Hz"


def test_every_message_that_can_be_asked_for_parses_and_extras_are_such() -> None:
    ground = station("measured")
    for message_id, name in MESSAGE_IDS.items():
        answers = ground.command(mav.MAV_CMD_REQUEST_MESSAGE, message_id)
        assert [m.get_type() for m in answers] == ["COMMAND_ACK", name]
    assert set(MESSAGE_IDS.values()) == set(ALL_BUILDERS)
    assert set(extra_periods_us(load_profile())).isdisjoint(load_profile().sizes)


def test_identity_home_and_protocol_questions() -> None:
    ground = station("measured")
    for number in (mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES, mav.MAV_CMD_REQUEST_MESSAGE):
        version = ground.command(number, mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION)[1]
        assert version.flight_sw_version >> 24 == 4
        assert version.flight_sw_version & 0xFF == mav.FIRMWARE_VERSION_TYPE_OFFICIAL
        assert bytes(version.flight_custom_version) == b"embedded"
    (legacy,) = ground.ask(mav.MAVLink_autopilot_version_request_message(1, 1))
    assert legacy.get_type() == "AUTOPILOT_VERSION"
    home = ground.command(mav.MAV_CMD_GET_HOME_POSITION)[1]
    assert (home.latitude, home.altitude) == (-353632620, 584000)
    texts = [m.text for m in ground.command(42428)[1:]]
    assert any("not ArduPilot" in words for words in texts)
    (pong,) = ground.ask(mav.MAVLink_ping_message(7, 3, 0, 0))
    assert (pong.get_type(), pong.time_usec, pong.target_system) == ("PING", 7, 255)
    (none,) = ground.ask(mav.MAVLink_log_request_list_message(1, 1, 0, 0xFFFF))
    assert (none.get_type(), none.num_logs) == ("LOG_ENTRY", 0)


def test_the_variable_is_checked_when_the_service_starts() -> None:
    base = {"PQ_VEHICLE_TARGET": "127.0.0.1:14550"}
    assert Settings.from_environment("vehicle", base).vehicle_streams == "measured"
    chosen = Settings.from_environment("vehicle", {**base, "PQ_VEHICLE_STREAMS": "default"})
    assert chosen.vehicle_streams == "default"
    with pytest.raises(SpecError, match="PQ_VEHICLE_STREAMS"):
        Settings.from_environment("vehicle", {**base, "PQ_VEHICLE_STREAMS": "all"})
