"""MAV_CMD handling of the embedded vehicle: every command gets exactly one COMMAND_ACK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import LAND, RTL
from pqsitl.frames import MESSAGE_IDS

if TYPE_CHECKING:
    from pqsitl.vehicle import EmbeddedVehicle

FORCE_DISARM = 21196  # magic of MAV_CMD_COMPONENT_ARM_DISARM param2
MIN_INTERVAL_US = 2_500
"""One loop of a 400 Hz autopilot; ArduPilot refuses to send faster too."""


def handle(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """Run one COMMAND_LONG or COMMAND_INT; the answers, COMMAND_ACK first."""
    result, extra = _run(vehicle, message, now_ns)
    ack = mav.MAVLink_command_ack_message(
        message.command, result, 0, 0, message.get_srcSystem(), message.get_srcComponent()
    )
    return [ack, *extra]


def _run(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> tuple[int, list[Any]]:
    command = message.command
    flight = vehicle.flight
    if command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
        done = flight.arm(message.param1 >= 0.5, force=message.param2 == FORCE_DISARM)
        return _accepted(done), []
    if command == mav.MAV_CMD_NAV_TAKEOFF:
        altitude_m = message.param7 if message.get_type() == "COMMAND_LONG" else message.z
        return _accepted(flight.takeoff(altitude_m)), []
    if command == mav.MAV_CMD_DO_SET_MODE:
        return _accepted(flight.set_mode(int(message.param2))), []
    if command == mav.MAV_CMD_NAV_LAND:
        return _accepted(flight.set_mode(LAND)), []
    if command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
        return _accepted(flight.set_mode(RTL)), []
    if command == mav.MAV_CMD_SET_MESSAGE_INTERVAL:
        return _set_interval(vehicle, message, now_ns), []
    if command == mav.MAV_CMD_GET_MESSAGE_INTERVAL:
        name = MESSAGE_IDS.get(int(message.param1))
        interval_us = 0 if name is None else vehicle.schedule.interval_us(name)
        return mav.MAV_RESULT_ACCEPTED, [
            mav.MAVLink_message_interval_message(int(message.param1), interval_us)
        ]
    if command == mav.MAV_CMD_REQUEST_MESSAGE:
        return _request_message(vehicle, int(message.param1), now_ns)
    if command == mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
        return mav.MAV_RESULT_ACCEPTED, [autopilot_version()]
    return mav.MAV_RESULT_UNSUPPORTED, []


def _accepted(done: bool) -> int:
    result: int = mav.MAV_RESULT_ACCEPTED if done else mav.MAV_RESULT_FAILED
    return result


def _set_interval(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> int:
    name = MESSAGE_IDS.get(int(message.param1))
    interval_us = int(message.param2)
    if name is None or interval_us < -1 or 0 < interval_us < MIN_INTERVAL_US:
        return int(mav.MAV_RESULT_FAILED)
    vehicle.schedule.set_interval(name, interval_us, now_ns)
    return int(mav.MAV_RESULT_ACCEPTED)


def _request_message(vehicle: EmbeddedVehicle, message_id: int, now_ns: int) -> tuple[int, list[Any]]:
    if message_id == mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION:
        return mav.MAV_RESULT_ACCEPTED, [autopilot_version()]
    name = MESSAGE_IDS.get(message_id)
    if name is None:
        return mav.MAV_RESULT_FAILED, []
    return mav.MAV_RESULT_ACCEPTED, [vehicle.build(name, now_ns)]


def autopilot_version() -> Any:
    """AUTOPILOT_VERSION: MAVLink 2, float parameters, mission items as integers, no FTP."""
    capabilities = (
        mav.MAV_PROTOCOL_CAPABILITY_MAVLINK2
        | mav.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
        | mav.MAV_PROTOCOL_CAPABILITY_MISSION_INT
        | mav.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    )
    none = bytes(8)
    return mav.MAVLink_autopilot_version_message(capabilities, 0, 0, 0, 0, none, none, none, 0, 0, 0)
