"""The embedded vehicle's parameter table."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.params import ParameterTable
from pqsitl.profile import load_profile
from pqsitl.vehicle import EmbeddedVehicle
from virtual_ground import START_NS, Ground


@pytest.fixture
def ground() -> Ground:
    return Ground(EmbeddedVehicle(load_profile(), 20.0, 1, START_NS))


def test_the_table_is_sound() -> None:
    table = ParameterTable()
    messages = [table.message(index) for index in range(len(table))]
    names = [m.param_id for m in messages]
    assert len(names) == len(set(names)) >= 200
    assert max(map(len, names)) <= 16
    assert {m.param_type for m in messages} == {2, 4, 6, 9}
    for row in table._rows:
        assert row.low <= row.value <= row.high, row
        assert row.kind == 9 or row.value == int(row.value), row
        if not row.read_only:
            for value in (row.low, row.high):
                assert table.set(row.name, value) == mav.MAV_PARAM_ERROR_NO_ERROR, row


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (b"FRAME_CLASS", 4000.0, mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE),
        (b"RTL_ALT", 100.0, mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE),
        (b"WPNAV_SPEED", float("nan"), mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE),
        (b"BATT_CAPACITY", float("inf"), mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE),
        (b"SYSID_THISMAV", 7.0, mav.MAV_PARAM_ERROR_READ_ONLY),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_old_one_and_the_reason(
    ground: Ground, name: bytes, value: float, error: int
) -> None:
    old = ground.vehicle.params[name.decode()]
    shown, reason, words = ground.ask(mav.MAVLink_param_set_message(1, 1, name, value, 9))
    assert (shown.get_type(), shown.param_value) == ("PARAM_VALUE", old)
    assert (reason.get_type(), reason.error) == ("PARAM_ERROR", error)
    assert words.text.startswith(f"{name.decode()} unchanged: ")


def test_what_a_float_rounds_to_is_inside_its_range(ground: Ground) -> None:
    (shown,) = ground.ask(mav.MAVLink_param_set_message(1, 1, b"ACRO_RP_EXPO", 0.95, 9))
    assert shown.param_value == pytest.approx(0.95)
    (shown,) = ground.ask(mav.MAVLink_param_set_message(1, 1, b"WPNAV_SPEED", 900.0, 9))
    assert ground.vehicle.flight.max_speed_ms == 9.0


def test_a_flood_of_list_requests_is_one_list(ground: Ground) -> None:
    for _ in range(50):
        ground.ask(mav.MAVLink_param_request_list_message(1, 1))
    heard = [m for m in ground.wait(60) if m.get_type() == "PARAM_VALUE" and m.param_index != 65535]
    assert [m.param_index for m in heard] == list(range(len(ground.vehicle.params)))


def frame_of(kind: Any, payload: bytes) -> bytes:
    """A frame with any payload at all; only its checksum is right."""
    head = bytes([len(payload), 0, 0, 0, 255, 190]) + kind.id.to_bytes(3, "little")
    checksum = mav.x25crc(head + payload)
    checksum.accumulate(bytes([kind.crc_extra]))
    return b"\xfd" + head + payload + checksum.crc.to_bytes(2, "little")


def addressed(kind: Any, payload: bytes) -> bytes:
    """The payload with the vehicle as its target, where that field stands before every array."""
    values = list(kind.unpacker.unpack(payload))
    for name in ("target_system", "target_component"):
        if name in kind.ordered_fieldnames:
            place = kind.ordered_fieldnames.index(name)
            if not any(kind.array_lengths[:place]):
                values[place] = 1
    return bytes(kind.unpacker.pack(*values))


def test_random_payloads_of_every_message_break_nothing(ground: Ground) -> None:
    rng, vehicle = random.Random(1), ground.vehicle
    for _ in range(40):
        for kind in mav.mavlink_map.values():
            size = kind.unpacker.size
            # NaN, ends of ranges and zeros are likelier here than by chance.
            fills = (rng.randbytes(size), b"\xff" * size, bytes(size), (b"\0\0\xc0\x7f" * size)[:size])
            payload = addressed(kind, rng.choice(fills))
            vehicle.receive(frame_of(kind, payload), ground.now_ns)
        ground.wait(0.5)
    assert vehicle.bad_count == 0 and vehicle.received_count > 5_000
    assert {"HEARTBEAT", "ATTITUDE"} <= {m.get_type() for m in ground.wait(5.0)}, "the vehicle goes on"


def test_a_flood_of_commands_is_answered_one_by_one(ground: Ground) -> None:
    known = [*mav.enums["MAV_CMD"], 31_999, 65_535]
    for number in known:
        for value in (0.0, 1.0, float("nan"), float("inf"), -1e30):
            answers = ground.command(number, *[value] * 7)
            assert [m.get_type() for m in answers].count("COMMAND_ACK") == 1
    assert {"HEARTBEAT", "ATTITUDE"} <= {m.get_type() for m in ground.wait(5.0)}, "the vehicle goes on"
