"""Missions, fence, rally points and files of the embedded vehicle in virtual time."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav
from pymavlink.mavftp import MAVFTP

from pqsitl.flight import AUTO, GUIDED, LAND, RTL
from pqsitl.mission import MAX_ITEMS, judged
from pqsitl.profile import load_profile
from pqsitl.vehicle import EmbeddedVehicle
from virtual_ground import START_NS, Ground, plan_item, square_plan

WAYPOINT, TAKEOFF = mav.MAV_CMD_NAV_WAYPOINT, mav.MAV_CMD_NAV_TAKEOFF
INCLUSION = mav.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_INCLUSION
FENCE, RALLY = mav.MAV_MISSION_TYPE_FENCE, mav.MAV_MISSION_TYPE_RALLY


@pytest.fixture
def ground() -> Ground:
    return Ground(EmbeddedVehicle(load_profile(), 20.0, 1, START_NS, airborne=False))


def arm(ground: Ground) -> None:
    assert ground.command(mav.MAV_CMD_DO_SET_MODE, 1, GUIDED)[0].result == 0
    assert ground.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1)[0].result == 0


def ended(message: Any) -> bool:
    return message.get_type() == "STATUSTEXT" and (
        "disarmed" in message.text or "complete" in message.text or "ended" in message.text
    )


def reached(heard: list[Any]) -> list[int]:
    return [m.seq for m in heard if m.get_type() == "MISSION_ITEM_REACHED"]


def corner(seq: int, count: int) -> Any:
    return plan_item(seq, INCLUSION, 50.0 * (seq + 1), params=(count, 0, 0, 0), mission_type=FENCE)


def test_a_mission_is_flown_to_its_end(ground: Ground) -> None:
    assert ground.upload(square_plan()) == mav.MAV_MISSION_ACCEPTED
    arm(ground)
    assert ground.command(mav.MAV_CMD_MISSION_START)[0].result == mav.MAV_RESULT_ACCEPTED
    heard = ground.until(ended, 600)
    assert reached(heard) == [1, 2, 4, 5, 6, 7]
    state = ground.vehicle.flight.state
    assert (state.armed, state.mode) == (False, AUTO)
    assert ground.vehicle.flight.landed
    assert abs(state.north_m) < 2 and abs(state.east_m) < 2, "it came home"
    assert state.mission_state == mav.MISSION_STATE_COMPLETE
    assert {m.seq for m in heard if m.get_type() == "MISSION_CURRENT"} == {1, 2, 4, 5, 6, 7}
    assert ground.vehicle.flight.max_speed_ms == 8.0
    place = [m for m in heard if m.get_type() == "LOCAL_POSITION_NED"]
    assert max(m.x for m in place) > 60 and min(m.z for m in place) < -14


def test_a_mission_that_lands_away_makes_that_place_home_when_armed_again(ground: Ground) -> None:
    plan = [*square_plan()[:3], plan_item(3, mav.MAV_CMD_NAV_LAND, 30.0)]
    assert ground.upload(plan) == 0
    arm(ground)
    ground.command(mav.MAV_CMD_MISSION_START)
    assert reached(ground.until(ended, 600) + ground.wait(1.0)) == [1, 2, 3]
    assert not ground.vehicle.flight.state.armed
    refused = ground.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1)
    assert refused[0].result == mav.MAV_RESULT_FAILED, "nothing is armed in AUTO"
    assert "refused" in refused[1].text
    ground.command(mav.MAV_CMD_DO_SET_MODE, 1, GUIDED)
    ack, home = ground.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1)
    assert ack.result == 0
    assert home.latitude - -353632620 == pytest.approx(30 / 111_319.49 * 1e7, abs=300)


def test_auto_is_refused_where_nothing_can_be_flown_and_says_why(ground: Ground) -> None:
    assert ground.command(mav.MAV_CMD_MISSION_START)[1].text == "Mission refused: not armed"
    arm(ground)
    ack, words = ground.command(mav.MAV_CMD_MISSION_START)
    assert (ack.result, words.text) == (mav.MAV_RESULT_FAILED, "Mission refused: no mission is stored")
    ack, words = ground.ask(mav.MAVLink_set_mode_message(1, 1, AUTO))
    assert (ack.command, ack.result) == (mav.MAVLINK_MSG_ID_SET_MODE, mav.MAV_RESULT_FAILED)
    assert "no mission" in words.text
    assert ground.upload([plan_item(0, WAYPOINT, 1.0), plan_item(1, WAYPOINT, 30.0, 10.0)]) == 0
    assert "no takeoff" in ground.command(mav.MAV_CMD_MISSION_START)[1].text
    assert ground.vehicle.flight.state.mode == GUIDED
    (ack,) = ground.ask(mav.MAVLink_set_mode_message(1, 1, LAND))
    assert ack.result == 0


def test_a_mission_pauses_goes_on_and_jumps(ground: Ground) -> None:
    plan = [
        *square_plan()[:3],
        plan_item(3, WAYPOINT, 60.0, 15.0),
        plan_item(4, mav.MAV_CMD_DO_JUMP, params=(2.0, 1.0, 0.0, 0.0)),
        plan_item(5, mav.MAV_CMD_DO_SET_SERVO),
        plan_item(6, mav.MAV_CMD_NAV_LOITER_UNLIM, 30.0, 15.0),
    ]
    assert ground.upload(plan) == 0
    arm(ground)
    ground.command(mav.MAV_CMD_MISSION_START)
    ground.until(lambda m: m.get_type() == "MISSION_ITEM_REACHED" and m.seq == 2, 120)
    assert ground.command(mav.MAV_CMD_NAV_LOITER_UNLIM)[0].result == 0
    assert ground.vehicle.flight.state.mission_state == mav.MISSION_STATE_PAUSED
    assert reached(ground.wait(60)) == [], "paused is paused"
    assert ground.command(mav.MAV_CMD_DO_SET_MISSION_CURRENT, 99)[0].result == mav.MAV_RESULT_DENIED
    (refused,) = ground.ask(mav.MAVLink_mission_set_current_message(1, 1, 99))
    assert refused.type == mav.MAV_MISSION_INVALID_SEQUENCE
    (current,) = ground.ask(mav.MAVLink_mission_set_current_message(1, 1, 3))
    assert (current.seq, current.total) == (3, 6)
    ground.command(mav.MAV_CMD_MISSION_START)
    heard = ground.wait(120)
    assert reached(heard) == [3, 2, 3], "the jump is taken once"
    assert any("DO_SET_SERVO passed over" in m.text for m in heard if m.get_type() == "STATUSTEXT")
    ground.ask(mav.MAVLink_mission_clear_all_message(1, 1, 0))
    assert reached(ground.wait(30)) == []
    assert ground.vehicle.flight.state.alt_m == pytest.approx(15, abs=1), "it holds where it was"


def test_a_jump_that_moves_nothing_ends_the_mission(ground: Ground) -> None:
    plan = [*square_plan()[:2], plan_item(2, mav.MAV_CMD_DO_JUMP, params=(2.0, -1.0, 0.0, 0.0))]
    assert ground.upload(plan) == 0
    arm(ground)
    ground.command(mav.MAV_CMD_MISSION_START)
    assert ended(ground.until(ended, 60)[-1])
    assert ground.vehicle.flight.state.mission_state == mav.MISSION_STATE_COMPLETE


def test_return_climbs_first_and_lands_disarmed(ground: Ground) -> None:
    arm(ground)
    ground.ask(mav.MAVLink_param_set_message(1, 1, b"RTL_ALT", 2000.0, 6))
    ground.command(mav.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, 8)
    ground.wait(15)
    ground.ask(mav.MAVLink_set_position_target_local_ned_message(0, 1, 1, 1, 0xFF8, 40, 0, -8, *[0] * 8))
    ground.wait(30)
    assert ground.vehicle.flight.state.north_m == pytest.approx(40, abs=1)
    assert ground.command(mav.MAV_CMD_NAV_RETURN_TO_LAUNCH)[0].result == 0
    heard = [m for m in ground.wait(90) if m.get_type() == "LOCAL_POSITION_NED"]
    assert min(m.z for m in heard) == pytest.approx(-20, abs=1)
    state = ground.vehicle.flight.state
    assert (state.armed, state.mode) == (False, RTL)
    assert abs(state.north_m) < 1.5


def test_a_place_can_be_asked_for_in_each_way_that_stations_use(ground: Ground) -> None:
    arm(ground)
    for nowhere in (float("nan"), float("inf"), -5.0):
        ack, _ = ground.command(mav.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, nowhere)
        assert ack.result == mav.MAV_RESULT_FAILED
    ground.command(mav.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, 10)
    flight = ground.vehicle.flight
    lat = -353632620 + round(20 / 111_319.49 * 1e7)
    reposition = mav.MAV_CMD_DO_REPOSITION
    (ack,) = ground.ask(
        mav.MAVLink_command_int_message(1, 1, 3, reposition, 0, 0, -1, 1, 0, 0, lat, 1491652370, 12.0)
    )
    assert ack.result == 0 and flight.state.target_m == pytest.approx((20, 0, 12), abs=0.1)
    (ack,) = ground.ask(
        mav.MAVLink_command_int_message(1, 1, 0, reposition, 0, 0, -1, 1, 0, 0, lat, 1491652370, 594.0)
    )
    assert flight.state.target_m[2] == pytest.approx(10), "above the sea"
    item = mav.MAVLink_mission_item_message(1, 1, 0, 3, WAYPOINT, 2, 0, 0, 0, 0, 0, lat / 1e7, 149.165237, 14)
    assert ground.ask(item)[0].type == 0 and flight.state.target_m[2] == 14
    far = mav.MAVLink_set_position_target_local_ned_message(0, 1, 1, 1, 0xFF8, float("nan"), 0, -9, *[0] * 8)
    ground.ask(far)
    assert flight.state.target_m[2] == 14, "no place, no flight"
    ground.command(mav.MAV_CMD_DO_SET_MODE, 1, LAND)
    ack, _ = ground.command(reposition, -1, 0, 0, 0, -35.36, 149.16, 10)
    assert ack.result == mav.MAV_RESULT_FAILED, "not in GUIDED, and not asked to change that"
    assert ground.command(mav.MAV_CMD_DO_CHANGE_SPEED, 1, 7)[0].result == 0
    assert flight.max_speed_ms == 7


@pytest.mark.parametrize("mission_type", sorted(MAX_ITEMS))
def test_a_list_that_does_not_fit_is_refused_and_the_old_one_stays(ground: Ground, mission_type: int) -> None:
    most = MAX_ITEMS[mission_type]
    command = {0: WAYPOINT, 1: mav.MAV_CMD_NAV_FENCE_CIRCLE_INCLUSION, 2: mav.MAV_CMD_NAV_RALLY_POINT}
    plan = [
        plan_item(n, command[mission_type], n + 1.0, 10.0, mission_type=mission_type) for n in range(most)
    ]
    assert ground.upload(plan, mission_type) == mav.MAV_MISSION_ACCEPTED
    for count in (most + 1, 2_000, 65_535):
        (ack,) = ground.ask(mav.MAVLink_mission_count_message(1, 1, count, mission_type))
        assert (ack.type, ack.mission_type) == (mav.MAV_MISSION_NO_SPACE, mission_type)
    assert [m.x for m in ground.download(mission_type)] == [m.x for m in plan]


def test_malformed_sequences_get_the_result_that_names_them(ground: Ground) -> None:
    def results(items: list[Any]) -> list[int]:
        ground.ask(mav.MAVLink_mission_count_message(1, 1, 2, 0))
        return [m.type for item in items for m in ground.ask(item) if m.get_type() == "MISSION_ACK"]

    good = plan_item(0, WAYPOINT, 1.0, 5.0)
    assert [m.type for m in ground.ask(good)] == [mav.MAV_MISSION_ERROR], "nobody asked for it"
    assert results([plan_item(2, WAYPOINT, 1.0)]) == [mav.MAV_MISSION_INVALID_SEQUENCE]
    assert results([good, good, plan_item(1, WAYPOINT, 2.0)]) == [mav.MAV_MISSION_ACCEPTED]
    assert results([plan_item(1, WAYPOINT, 1.0), good, plan_item(1, TAKEOFF)]) == [0], "asked for in turn"
    assert results([plan_item(0, 31_000)]) == [mav.MAV_MISSION_UNSUPPORTED]
    assert results([plan_item(0, WAYPOINT, 1.0, frame=1)]) == [mav.MAV_MISSION_UNSUPPORTED_FRAME]
    assert results([plan_item(0, WAYPOINT, 1.0, float("nan"))]) == [mav.MAV_MISSION_INVALID_PARAM7]
    assert results([corner(0, 3)]) == [mav.MAV_MISSION_INVALID]
    north = mav.MAVLink_mission_item_int_message(1, 1, 0, 3, WAYPOINT, 0, 1, 0, 0, 0, 0, 910_000_000, 0, 5, 0)
    assert judged(north) == mav.MAV_MISSION_INVALID_PARAM5_X
    (ack,) = ground.ask(mav.MAVLink_mission_count_message(1, 1, 1, 7))
    assert ack.type == mav.MAV_MISSION_UNSUPPORTED
    ground.ask(mav.MAVLink_mission_count_message(1, 1, 2, 0))
    (ack,) = Ground(ground.vehicle, 254).ask(mav.MAVLink_mission_count_message(1, 1, 2, 0))
    assert ack.type == mav.MAV_MISSION_DENIED, "another station is sending"
    ground.ask(mav.MAVLink_mission_ack_message(1, 1, mav.MAV_MISSION_OPERATION_CANCELLED, 0))
    assert not ground.vehicle.mission.uploading


def test_part_of_a_mission_is_written_anew(ground: Ground) -> None:
    assert ground.upload(square_plan()) == 0
    (request,) = ground.ask(mav.MAVLink_mission_write_partial_list_message(1, 1, 2, 3, 0))
    assert (request.get_type(), request.seq) == ("MISSION_REQUEST_INT", 2)
    (request,) = ground.ask(plan_item(2, WAYPOINT, 45.0, 15.0))
    (ack,) = ground.ask(plan_item(3, WAYPOINT, 50.0, 15.0))
    assert ack.type == 0
    commands = [m.command for m in ground.download()]
    assert commands[3] == WAYPOINT and len(commands) == len(square_plan())
    (ack,) = ground.ask(mav.MAVLink_mission_write_partial_list_message(1, 1, 5, 50, 0))
    assert ack.type == mav.MAV_MISSION_INVALID_SEQUENCE


def test_old_items_in_degrees_go_both_ways(ground: Ground) -> None:
    ground.ask(mav.MAVLink_mission_count_message(1, 1, 1, 0))
    degrees = mav.MAVLink_mission_item_message(1, 1, 0, 3, WAYPOINT, 0, 1, 0, 0, 0, 0, -35.5, 149.25, 9.0, 0)
    assert ground.ask(degrees)[0].type == 0
    assert ground.download()[0].x == -355_000_000
    (back,) = ground.ask(mav.MAVLink_mission_request_message(1, 1, 0, 0))
    assert (back.get_type(), back.x, back.z) == ("MISSION_ITEM", -35.5, 9.0)


def test_fence_and_rally_points_come_back_as_they_were_sent(ground: Ground) -> None:
    fence = [corner(n, 4) for n in range(4)]
    circle = plan_item(
        4, mav.MAV_CMD_NAV_FENCE_CIRCLE_EXCLUSION, 9.0, params=(25, 0, 0, 0), mission_type=FENCE
    )
    rally = [plan_item(0, mav.MAV_CMD_NAV_RALLY_POINT, 70.0, 20.0, mission_type=RALLY)]
    assert ground.upload([*fence, circle], FENCE) == 0
    assert ground.upload(rally, RALLY) == 0
    got = [(m.command, m.param1, m.x, m.y) for m in ground.download(FENCE)]
    assert got == [(m.command, m.param1, m.x, m.y) for m in [*fence, circle]]
    assert [(m.x, m.z) for m in ground.download(RALLY)] == [(rally[0].x, 20.0)]
    assert ground.vehicle.params["FENCE_TOTAL"] == 5
    assert ground.upload(fence[:3], FENCE) == mav.MAV_MISSION_INVALID_PARAM1, "a corner is missing"
    assert len(ground.download(FENCE)) == 5
    ground.ask(mav.MAVLink_mission_clear_all_message(1, 1, 255))
    assert [ground.download(t) for t in (0, FENCE, RALLY)] == [[], [], []]
    ack = ground.command(mav.MAV_CMD_DO_FENCE_ENABLE, 1)[0]
    assert ack.result == mav.MAV_RESULT_UNSUPPORTED, "it is stored, not watched"


def ftp(ground: Ground, opcode: int, data: bytes = b"", offset: int = 0, size: int | None = None) -> Any:
    head = struct.pack("<HBBBBBBI", 7, 3, opcode, len(data) if size is None else size, 0, 0, 0, offset)
    message = mav.MAVLink_file_transfer_protocol_message(0, 1, 1, (head + data).ljust(251, b"\0"))
    return [bytes(m.payload) for m in ground.ask(message)]


def test_files_are_listed_read_and_never_written(ground: Ground) -> None:
    def nak(answers: list[bytes]) -> int:
        (answer,) = answers
        assert (struct.unpack_from("<H", answer)[0], answer[3]) == (8, 129)
        return answer[12]

    (listing,) = ftp(ground, 3, b"/")
    assert listing[12 : 12 + listing[4]] == b"D@MISSION\0D@PARAM\0"
    (listing,) = ftp(ground, 3, b"@PARAM")
    size = len(ground.vehicle.params.packed())
    assert listing[12 : 12 + listing[4]] == f"Fparam.pck\t{size}\0".encode()
    assert nak(ftp(ground, 3, b"@PARAM", 1)) == 6, "no more entries"
    assert nak(ftp(ground, 3, b"/APM")) == 10
    assert nak(ftp(ground, 4, b"@SYS/threads.txt")) == 10
    assert nak(ftp(ground, 6, b"@PARAM/param.pck")) == 9, "nothing is written"
    assert nak(ftp(ground, 99)) == 7
    assert nak(ftp(ground, 5, size=80)) == 4, "nothing is open"
    (opened,) = ftp(ground, 4, b"@PARAM/param.pck\0")
    assert int.from_bytes(opened[12:16], "little") == size
    (piece,) = ftp(ground, 5, offset=2, size=4)
    assert piece[12:16] == struct.pack("<HH", 371, 371)
    assert nak(ftp(ground, 5, offset=size, size=80)) == 6
    assert ftp(ground, 15, size=40) == []
    burst = [bytes(m.payload) for m in ground.wait(5.0) if m.get_type() == "FILE_TRANSFER_PROTOCOL"]
    whole = b"".join(packet[12 : 12 + packet[4]] for packet in burst)
    assert whole == ground.vehicle.params.packed()[: len(whole)] and len(burst) == 64
    assert [packet[6] for packet in burst] == [0] * 63 + [1]
    assert [struct.unpack_from("<H", packet)[0] for packet in burst] == list(range(8, 72))
    (closed,) = ftp(ground, 1)
    assert closed[3] == 128
    assert nak(ftp(ground, 5, size=80)) == 4


def test_packed_parameters_and_missions_are_what_the_tables_say(ground: Ground) -> None:
    ground.ask(mav.MAVLink_param_set_message(1, 1, b"RTL_ALT", 2000.0, 6))
    params = ground.vehicle.params
    decoded = MAVFTP.ftp_param_decode(params.packed(with_defaults=True))
    names = [params.message(n).param_id for n in range(len(params))]
    assert [name.decode() for name, _, _ in decoded.params] == names
    assert {n.decode(): v for n, v, _ in decoded.params} == pytest.approx({n: params[n] for n in names})
    assert {n.decode(): v for n, v, _ in decoded.defaults}["RTL_ALT"] == 1500
    assert ground.upload(square_plan()) == 0
    packed = ground.vehicle.mission.packed(0)
    assert struct.unpack_from("<HHHHH", packed) == (0x763D, 0, 0, 0, 8)
    unpacker = mav.MAVLink_mission_item_int_message.unpacker
    assert unpacker.size == (len(packed) - 10) // 8
    assert unpacker.unpack_from(packed, 10 + 2 * unpacker.size)[8] == WAYPOINT
