"""What the embedded vehicle answers to each message of a ground station (commands: `pqsitl.commands`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import commands
from pqsitl.flight import GUIDED, HOME_ALT_M, local_m
from pqsitl.identity import autopilot_version, banner, text
from pqsitl.mission import ABSOLUTE, GUIDED_ALTITUDE, GUIDED_ITEM, RELATIVE, as_int
from pqsitl.streams import MAX_STREAM_HZ, group

if TYPE_CHECKING:
    from pqsitl.vehicle import EmbeddedVehicle

POSITION_IGNORED = 0b111
"""Bits of a position target's type_mask: x, y or z is not to be flown."""
_ERRORS = {
    mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE: "outside",
    mav.MAV_PARAM_ERROR_READ_ONLY: "is",
}

Handler = Callable[["EmbeddedVehicle", Any, int], list[Any]]


def answer(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """Messages to send at once; what has no handler is counted and ignored."""
    kind = message.get_type()
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return handler(vehicle, message, now_ns)
    answers = vehicle.mission.handle(message, now_ns)
    if answers is None:
        vehicle.ignored[kind] = vehicle.ignored.get(kind, 0) + 1
        return []
    return answers


def _heartbeat(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """With the default streams a new ground station is greeted; the measured mix adds nothing by itself."""
    station = message.get_srcSystem()
    if not vehicle.greets or message.type != mav.MAV_TYPE_GCS or station in vehicle.greeted:
        return []
    vehicle.greeted.add(station)
    return [*(vehicle.build(name, now_ns) for name in ("HOME_POSITION", "GPS_GLOBAL_ORIGIN")), *banner()]


def _timesync(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    boot_ns = vehicle.boot_ns(now_ns)
    if message.tc1 == 0:
        return [mav.MAVLink_timesync_message(boot_ns, message.ts1)]
    vehicle.timesync_rtt_ns = boot_ns - message.ts1
    return []


def _ping(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    if message.target_system != 0:
        return []  # an answer, not a question
    partner = (message.get_srcSystem(), message.get_srcComponent())
    return [mav.MAVLink_ping_message(message.time_usec, message.seq, *partner)]


def _list_params(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    if not vehicle.listing_params:
        vehicle.waiting.extend(banner())
    vehicle.request_params(list(range(len(vehicle.params))), now_ns)
    return []


def _read_param(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    index = vehicle.params.find(message.param_id, message.param_index)
    if index is None:
        return [_param_error(message, mav.MAV_PARAM_ERROR_DOES_NOT_EXIST)]
    return [vehicle.params.message(index)]


def _set_param(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """PARAM_VALUE with what is stored now: the new value, or the old one and the reason."""
    params, name = vehicle.params, message.param_id
    error = params.set(name, message.param_value)
    if error == mav.MAV_PARAM_ERROR_DOES_NOT_EXIST:
        return [_param_error(message, error)]
    index = params.find(name, -1)
    assert index is not None
    if error == mav.MAV_PARAM_ERROR_NO_ERROR:
        vehicle.parameter_changed(name)
        return [params.message(index)]
    words = f"{name} unchanged: {_ERRORS[error]} {params.range_text(name)}"
    return [params.message(index), _param_error(message, error), text(words, mav.MAV_SEVERITY_WARNING)]


def _param_error(message: Any, error: int) -> Any:
    name = message.param_id.encode("ascii", "replace")[:16]
    index = getattr(message, "param_index", -1)
    return mav.MAVLink_param_error_message(
        message.get_srcSystem(), message.get_srcComponent(), name, index, error
    )


def _set_mode(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """ArduPilot acknowledges this message as if it were a command of its number."""
    refusal = vehicle.set_mode(message.custom_mode)
    result = commands.ACCEPTED if refusal is None else commands.FAILED
    partner = (message.get_srcSystem(), message.get_srcComponent())
    ack = mav.MAVLink_command_ack_message(mav.MAVLINK_MSG_ID_SET_MODE, result, 0, 0, *partner)
    if refusal is None:
        return [ack]
    return [ack, text(f"Mode refused: {refusal}", mav.MAV_SEVERITY_WARNING)]


def _request_stream(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """Messages beside the profile's get the rate asked for; the profile's own keep the scenario's."""
    rate_hz = min(message.req_message_rate, MAX_STREAM_HZ) if message.start_stop else 0
    for name in group(message.req_stream_id):
        if name not in vehicle.profile.sizes:
            vehicle.schedule.set_interval(name, round(1e6 / rate_hz) if rate_hz else -1, now_ns)
    return []


def _fly_local(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    if message.coordinate_frame == mav.MAV_FRAME_LOCAL_NED:
        _fly_guided(vehicle, message, (message.x, message.y, -message.z))
    return []


def _fly_global(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    above_m = HOME_ALT_M if message.coordinate_frame in ABSOLUTE else 0.0
    if message.coordinate_frame in ABSOLUTE | RELATIVE:
        place = (*local_m(message.lat_int * 1e-7, message.lon_int * 1e-7), message.alt - above_m)
        _fly_guided(vehicle, message, place)
    return []


def _fly_guided(vehicle: EmbeddedVehicle, message: Any, place: tuple[float, float, float]) -> None:
    if vehicle.flight.state.mode == GUIDED and not message.type_mask & POSITION_IGNORED:
        vehicle.flight.fly_to(*place)


def _item(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """An item of a mission, or with `current` 2 or 3 a place to fly to at once."""
    if message.current not in (GUIDED_ITEM, GUIDED_ALTITUDE) or vehicle.mission.uploading:
        return vehicle.mission.handle(message, now_ns) or []
    item = message if message.get_type() == "MISSION_ITEM_INT" else as_int(message)
    done = item is not None and vehicle.flight.state.mode == GUIDED
    if item is not None and done:
        alt_m = item.z - HOME_ALT_M if item.frame in ABSOLUTE else item.z
        north_m, east_m, _ = vehicle.flight.state.target_m
        if message.current == GUIDED_ITEM:
            north_m, east_m = local_m(item.x * 1e-7, item.y * 1e-7)
        done = vehicle.flight.fly_to(north_m, east_m, alt_m)
    result = mav.MAV_MISSION_ACCEPTED if done else mav.MAV_MISSION_ERROR
    partner = (message.get_srcSystem(), message.get_srcComponent())
    return [mav.MAVLink_mission_ack_message(*partner, result, message.mission_type)]


def _set_current(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    if vehicle.pilot.set_current(message.seq):
        return [vehicle.build("MISSION_CURRENT", now_ns)]
    partner = (message.get_srcSystem(), message.get_srcComponent())
    return [mav.MAVLink_mission_ack_message(*partner, mav.MAV_MISSION_INVALID_SEQUENCE, 0)]


def _ftp(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    answers, burst = vehicle.ftp.handle(message)
    if burst:
        vehicle.request_burst(burst, now_ns)
    return answers


def _no_logs(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    """LOG_ENTRY of zero logs, as ArduPilot answers where there is none."""
    return [mav.MAVLink_log_entry_message(0, 0, 0, 0, 0)]


def _no_log_data(vehicle: EmbeddedVehicle, message: Any, now_ns: int) -> list[Any]:
    return [mav.MAVLink_log_data_message(message.id, message.ofs, 0, bytes(90))]


_HANDLERS: dict[str, Handler] = {
    "HEARTBEAT": _heartbeat,
    "TIMESYNC": _timesync,
    "PING": _ping,
    "PARAM_REQUEST_LIST": _list_params,
    "PARAM_REQUEST_READ": _read_param,
    "PARAM_SET": _set_param,
    "COMMAND_LONG": commands.handle,
    "COMMAND_INT": commands.handle,
    "SET_MODE": _set_mode,
    "REQUEST_DATA_STREAM": _request_stream,
    "AUTOPILOT_VERSION_REQUEST": lambda vehicle, message, now_ns: [autopilot_version()],
    "SET_POSITION_TARGET_LOCAL_NED": _fly_local,
    "SET_POSITION_TARGET_GLOBAL_INT": _fly_global,
    "MISSION_ITEM": _item,
    "MISSION_ITEM_INT": _item,
    "MISSION_SET_CURRENT": _set_current,
    "FILE_TRANSFER_PROTOCOL": _ftp,
    "LOG_REQUEST_LIST": _no_logs,
    "LOG_REQUEST_DATA": _no_log_data,
}
