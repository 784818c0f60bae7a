"""MAV_CMD handling of the embedded vehicle: every command gets exactly one COMMAND_ACK."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import AUTO, GUIDED, HOME_ALT_M, LAND, LOITER, RTL, local_m
from pqsitl.identity import autopilot_version, banner, text
from pqsitl.mission import ABSOLUTE
from pqsitl.streams import MESSAGE_IDS

if TYPE_CHECKING:
    from pqsitl.vehicle import EmbeddedVehicle

FORCE_DISARM = 21196  # magic of MAV_CMD_COMPONENT_ARM_DISARM param2
SEND_BANNER = 42428  # MAV_CMD_DO_SEND_BANNER of ardupilotmega.xml
MIN_INTERVAL_US = 2_500
"""One loop of a 400 Hz autopilot; ArduPilot refuses to send faster too."""
MAX_SPEED_MS = 20.0
ACCEPTED, DENIED = mav.MAV_RESULT_ACCEPTED, mav.MAV_RESULT_DENIED
UNSUPPORTED, FAILED = mav.MAV_RESULT_UNSUPPORTED, mav.MAV_RESULT_FAILED

Command = mav.MAVLink_command_long_message | mav.MAVLink_command_int_message
Answer = tuple[int, list[mav.MAVLink_message]]
Handler = Callable[["EmbeddedVehicle", Command, int], Answer]


def handle(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> list[mav.MAVLink_message]:
    """Run one COMMAND_LONG or COMMAND_INT; the answers, COMMAND_ACK first."""
    handler = _HANDLERS.get(message.command)
    result, extra = (UNSUPPORTED, []) if handler is None else handler(vehicle, message, now_ns)
    ack = mav.MAVLink_command_ack_message(
        message.command, result, 0, 0, message.get_srcSystem(), message.get_srcComponent()
    )
    return [ack, *extra]


def whole(value: float) -> int | None:
    """A parameter that stands for a number of something; None where it is NaN or infinite."""
    return int(value) if math.isfinite(value) else None


def _outcome(refusal: str | None, what: str) -> Answer:
    """ACCEPTED, or FAILED with the reason as a text."""
    if refusal is None:
        return ACCEPTED, []
    return FAILED, [text(f"{what} refused: {refusal}", mav.MAV_SEVERITY_WARNING)]


def _place(message: Command) -> tuple[float, float, float] | None:
    """North, east and altitude above home of a command's place; None where it names none."""
    if isinstance(message, mav.MAVLink_command_int_message):
        lat_deg, lon_deg, alt_m = message.x * 1e-7, message.y * 1e-7, message.z
        alt_m -= HOME_ALT_M if message.frame in ABSOLUTE else 0.0
    else:
        lat_deg, lon_deg, alt_m = message.param5, message.param6, message.param7
    if not (abs(lat_deg) <= 90 and abs(lon_deg) <= 180 and math.isfinite(alt_m)):
        return None
    return (*local_m(lat_deg, lon_deg), alt_m)


def _arm(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    was_armed = vehicle.flight.state.armed
    wanted = message.param1 >= 0.5
    refusal = vehicle.flight.arm(wanted, force=message.param2 == FORCE_DISARM)
    if refusal is None and wanted and not was_armed:
        # ArduPilot makes this place its home, and says so.
        return ACCEPTED, [vehicle.build("HOME_POSITION", now_ns)]
    return _outcome(refusal, "Arming" if wanted else "Disarming")


def _takeoff(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    altitude_m = message.z if isinstance(message, mav.MAVLink_command_int_message) else message.param7
    done = vehicle.flight.takeoff(altitude_m)
    return _outcome(None if done else "armed, GUIDED, altitude > 0?", "Takeoff")


def _set_mode(mode: int | None) -> Handler:
    def handler(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
        wanted = whole(message.param2) if mode is None else mode
        return _outcome(vehicle.set_mode(wanted), "Mode")

    return handler


def _start_mission(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    if not vehicle.flight.state.armed:
        return _outcome("not armed", "Mission")
    return _outcome(vehicle.set_mode(AUTO), "Mission")


def _set_current(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    seq = whole(message.param1)
    if seq is None or not vehicle.pilot.set_current(seq):
        return DENIED, []
    return ACCEPTED, [vehicle.build("MISSION_CURRENT", now_ns)]


def _reposition(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    place = _place(message)
    if place is None:
        return DENIED, []
    may_change = (whole(message.param2) or 0) & mav.MAV_DO_REPOSITION_FLAGS_CHANGE_MODE
    if vehicle.flight.state.mode != GUIDED and not may_change:
        return _outcome("mode is not GUIDED", "Reposition")
    refusal = vehicle.set_mode(GUIDED)
    if refusal is None and not vehicle.flight.fly_to(*place):
        refusal = "no such place"
    return _outcome(refusal, "Reposition")


def _change_speed(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    if not 0 < message.param2 <= MAX_SPEED_MS:
        return DENIED, []
    vehicle.flight.max_speed_ms = message.param2
    return ACCEPTED, []


def _set_interval(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    message_id, interval_us = whole(message.param1), whole(message.param2)
    name = None if message_id is None else MESSAGE_IDS.get(message_id)
    if name is None or interval_us is None or interval_us < -1 or 0 < interval_us < MIN_INTERVAL_US:
        return FAILED, []
    vehicle.schedule.set_interval(name, interval_us, now_ns)
    return ACCEPTED, []


def _get_interval(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    message_id = whole(message.param1)
    if message_id is None or not 0 <= message_id <= 0xFFFF:
        return FAILED, []
    name = MESSAGE_IDS.get(message_id)
    interval_us = 0 if name is None else vehicle.schedule.interval_us(name)
    return ACCEPTED, [mav.MAVLink_message_interval_message(message_id, interval_us)]


def _request_message(vehicle: EmbeddedVehicle, message: Command, now_ns: int) -> Answer:
    name = MESSAGE_IDS.get(whole(message.param1) or 0)
    return (FAILED, []) if name is None else (ACCEPTED, [vehicle.build(name, now_ns)])


def _accepted_with(make: Callable[[EmbeddedVehicle, int], list[mav.MAVLink_message]]) -> Handler:
    return lambda vehicle, message, now_ns: (ACCEPTED, make(vehicle, now_ns))


_HANDLERS: dict[int, Handler] = {
    mav.MAV_CMD_COMPONENT_ARM_DISARM: _arm,
    mav.MAV_CMD_NAV_TAKEOFF: _takeoff,
    mav.MAV_CMD_NAV_LAND: _set_mode(LAND),
    mav.MAV_CMD_NAV_RETURN_TO_LAUNCH: _set_mode(RTL),
    mav.MAV_CMD_NAV_LOITER_UNLIM: _set_mode(LOITER),
    mav.MAV_CMD_MISSION_START: _start_mission,
    mav.MAV_CMD_DO_SET_MODE: _set_mode(None),
    mav.MAV_CMD_DO_SET_MISSION_CURRENT: _set_current,
    mav.MAV_CMD_DO_REPOSITION: _reposition,
    mav.MAV_CMD_DO_CHANGE_SPEED: _change_speed,
    mav.MAV_CMD_SET_MESSAGE_INTERVAL: _set_interval,
    mav.MAV_CMD_GET_MESSAGE_INTERVAL: _get_interval,
    mav.MAV_CMD_REQUEST_MESSAGE: _request_message,
    mav.MAV_CMD_RUN_PREARM_CHECKS: _accepted_with(lambda vehicle, now_ns: []),
    mav.MAV_CMD_GET_HOME_POSITION: _accepted_with(lambda v, now_ns: [v.build("HOME_POSITION", now_ns)]),
    mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: _accepted_with(lambda vehicle, now_ns: [autopilot_version()]),
    SEND_BANNER: _accepted_with(lambda vehicle, now_ns: banner()),
}
