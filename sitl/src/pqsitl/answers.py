"""What the embedded vehicle answers to each message of a ground station (commands: `pqsitl.commands`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl import commands
from pqsitl.flight import GUIDED, HOME_ALT_M, local_m
from pqsitl.identity import autopilot_version, banner, text
from pqsitl.mission import ABSOLUTE, GUIDED_ALTITUDE, GUIDED_ITEM, RELATIVE, AnyItem, as_int
from pqsitl.streams import MAX_STREAM_HZ, group

if TYPE_CHECKING:
    from pqsitl.vehicle import EmbeddedVehicle

POSITION_IGNORED = 0b111
"""Bits of a position target's type_mask: x, y or z is not to be flown."""
_ERRORS = {
    mav.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE: "outside",
    mav.MAV_PARAM_ERROR_READ_ONLY: "is",
}

Answers = list[mav.MAVLink_message]
Handler = Callable[["EmbeddedVehicle", mav.MAVLink_message, int], Answers]
Kind = TypeVar("Kind", bound=mav.MAVLink_message)


def answer(vehicle: EmbeddedVehicle, message: mav.MAVLink_message, now_ns: int) -> Answers:
    """Messages to send at once; what has no handler is counted and ignored."""
    handler = _HANDLERS.get(type(message))
    if handler is not None:
        return handler(vehicle, message, now_ns)
    answers = vehicle.mission.handle(message, now_ns)
    if answers is None:
        kind = message.get_type()
        vehicle.ignored[kind] = vehicle.ignored.get(kind, 0) + 1
        return []
    return answers


def _heartbeat(vehicle: EmbeddedVehicle, message: mav.MAVLink_heartbeat_message, now_ns: int) -> Answers:
    """With the default streams a new ground station is greeted; the measured mix adds nothing by itself."""
    station = message.get_srcSystem()
    if not vehicle.greets or message.type != mav.MAV_TYPE_GCS or station in vehicle.greeted:
        return []
    vehicle.greeted.add(station)
    return [*(vehicle.build(name, now_ns) for name in ("HOME_POSITION", "GPS_GLOBAL_ORIGIN")), *banner()]


def _timesync(vehicle: EmbeddedVehicle, message: mav.MAVLink_timesync_message, now_ns: int) -> Answers:
    boot_ns = vehicle.boot_ns(now_ns)
    if message.tc1 == 0:
        return [mav.MAVLink_timesync_message(boot_ns, message.ts1)]
    vehicle.timesync_rtt_ns = boot_ns - message.ts1
    return []


def _ping(vehicle: EmbeddedVehicle, message: mav.MAVLink_ping_message, now_ns: int) -> Answers:
    if message.target_system != 0:
        return []  # an answer, not a question
    partner = (message.get_srcSystem(), message.get_srcComponent())
    return [mav.MAVLink_ping_message(message.time_usec, message.seq, *partner)]


def _list_params(vehicle: EmbeddedVehicle, message: mav.MAVLink_message, now_ns: int) -> Answers:
    if not vehicle.listing_params:
        vehicle.waiting.extend(banner())
    vehicle.request_params(list(range(len(vehicle.params))), now_ns)
    return []


def _read_param(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_param_request_read_message, now_ns: int
) -> Answers:
    index = vehicle.params.find(message.param_id, message.param_index)
    if index is None:
        return [_param_error(message, mav.MAV_PARAM_ERROR_DOES_NOT_EXIST)]
    return [vehicle.params.message(index)]


def _set_param(vehicle: EmbeddedVehicle, message: mav.MAVLink_param_set_message, now_ns: int) -> Answers:
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


def _param_error(
    message: mav.MAVLink_param_request_read_message | mav.MAVLink_param_set_message, error: int
) -> mav.MAVLink_message:
    name = message.param_id.encode("ascii", "replace")[:16]
    index = getattr(message, "param_index", -1)
    return mav.MAVLink_param_error_message(
        message.get_srcSystem(), message.get_srcComponent(), name, index, error
    )


def _set_mode(vehicle: EmbeddedVehicle, message: mav.MAVLink_set_mode_message, now_ns: int) -> Answers:
    """ArduPilot acknowledges this message as if it were a command of its number."""
    refusal = vehicle.set_mode(message.custom_mode)
    result = commands.ACCEPTED if refusal is None else commands.FAILED
    partner = (message.get_srcSystem(), message.get_srcComponent())
    ack = mav.MAVLink_command_ack_message(mav.MAVLINK_MSG_ID_SET_MODE, result, 0, 0, *partner)
    if refusal is None:
        return [ack]
    return [ack, text(f"Mode refused: {refusal}", mav.MAV_SEVERITY_WARNING)]


def _request_stream(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_request_data_stream_message, now_ns: int
) -> Answers:
    """Messages beside the profile's get the rate asked for; the profile's own keep the scenario's."""
    rate_hz = min(message.req_message_rate, MAX_STREAM_HZ) if message.start_stop else 0
    for name in group(message.req_stream_id):
        if name not in vehicle.profile.sizes:
            vehicle.schedule.set_interval(name, round(1e6 / rate_hz) if rate_hz else -1, now_ns)
    return []


def _fly_local(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_set_position_target_local_ned_message, now_ns: int
) -> Answers:
    if message.coordinate_frame == mav.MAV_FRAME_LOCAL_NED:
        _fly_guided(vehicle, message.type_mask, (message.x, message.y, -message.z))
    return []


def _fly_global(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_set_position_target_global_int_message, now_ns: int
) -> Answers:
    above_m = HOME_ALT_M if message.coordinate_frame in ABSOLUTE else 0.0
    if message.coordinate_frame in ABSOLUTE | RELATIVE:
        place = (*local_m(message.lat_int * 1e-7, message.lon_int * 1e-7), message.alt - above_m)
        _fly_guided(vehicle, message.type_mask, place)
    return []


def _fly_guided(vehicle: EmbeddedVehicle, type_mask: int, place: tuple[float, float, float]) -> None:
    if vehicle.flight.state.mode == GUIDED and not type_mask & POSITION_IGNORED:
        vehicle.flight.fly_to(*place)


def _item(vehicle: EmbeddedVehicle, message: AnyItem, now_ns: int) -> Answers:
    """An item of a mission, or with `current` 2 or 3 a place to fly to at once."""
    if message.current not in (GUIDED_ITEM, GUIDED_ALTITUDE) or vehicle.mission.uploading:
        return vehicle.mission.handle(message, now_ns) or []
    item = as_int(message)
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


def _set_current(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_mission_set_current_message, now_ns: int
) -> Answers:
    if vehicle.pilot.set_current(message.seq):
        return [vehicle.build("MISSION_CURRENT", now_ns)]
    partner = (message.get_srcSystem(), message.get_srcComponent())
    return [mav.MAVLink_mission_ack_message(*partner, mav.MAV_MISSION_INVALID_SEQUENCE, 0)]


def _ftp(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_file_transfer_protocol_message, now_ns: int
) -> Answers:
    answers, burst = vehicle.ftp.handle(message)
    if burst:
        vehicle.request_burst(burst, now_ns)
    return answers


def _no_logs(vehicle: EmbeddedVehicle, message: mav.MAVLink_message, now_ns: int) -> Answers:
    """LOG_ENTRY of zero logs, as ArduPilot answers where there is none."""
    return [mav.MAVLink_log_entry_message(0, 0, 0, 0, 0)]


def _no_log_data(
    vehicle: EmbeddedVehicle, message: mav.MAVLink_log_request_data_message, now_ns: int
) -> Answers:
    return [mav.MAVLink_log_data_message(message.id, message.ofs, 0, bytes(90))]


def _to(
    kind: type[Kind], do: Callable[[EmbeddedVehicle, Kind, int], Answers]
) -> tuple[type[mav.MAVLink_message], Handler]:
    """The handler of one kind of message, for a table of all kinds."""
    return (
        kind,
        lambda vehicle, message, now_ns: do(vehicle, message, now_ns) if isinstance(message, kind) else [],
    )


_HANDLERS: dict[type[mav.MAVLink_message], Handler] = dict(
    [
        _to(mav.MAVLink_heartbeat_message, _heartbeat),
        _to(mav.MAVLink_timesync_message, _timesync),
        _to(mav.MAVLink_ping_message, _ping),
        _to(mav.MAVLink_param_request_list_message, _list_params),
        _to(mav.MAVLink_param_request_read_message, _read_param),
        _to(mav.MAVLink_param_set_message, _set_param),
        _to(mav.MAVLink_command_long_message, commands.handle),
        _to(mav.MAVLink_command_int_message, commands.handle),
        _to(mav.MAVLink_set_mode_message, _set_mode),
        _to(mav.MAVLink_request_data_stream_message, _request_stream),
        _to(mav.MAVLink_autopilot_version_request_message, lambda *_: [autopilot_version()]),
        _to(mav.MAVLink_set_position_target_local_ned_message, _fly_local),
        _to(mav.MAVLink_set_position_target_global_int_message, _fly_global),
        _to(mav.MAVLink_mission_item_message, _item),
        _to(mav.MAVLink_mission_item_int_message, _item),
        _to(mav.MAVLink_mission_set_current_message, _set_current),
        _to(mav.MAVLink_file_transfer_protocol_message, _ftp),
        _to(mav.MAVLink_log_request_list_message, _no_logs),
        _to(mav.MAVLink_log_request_data_message, _no_log_data),
    ]
)
