"""What the vehicle sends beside the measured mix: when a station asks, or with PQ_VEHICLE_STREAMS=default.

The rates of `default` are those measured on ArduCopter asked for 4 Hz (profile default_4hz); the groups of
REQUEST_DATA_STREAM are ArduCopter's.
"""

from __future__ import annotations

import math
from functools import cache

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import HOME_ALT_M, HOME_LAT_DEG, HOME_LON_DEG, FlightState, degrees_of
from pqsitl.frames import BUILDERS, Builder, Message
from pqsitl.identity import autopilot_version
from pqsitl.profile import FIXED_NAMES, Profile, load_profile

DEFAULT_PROFILE = "default_4hz"
MAX_STREAM_HZ = 50

STREAM_GROUPS: dict[int, tuple[str, ...]] = {
    mav.MAV_DATA_STREAM_RAW_SENSORS: (
        "RAW_IMU", "SCALED_IMU2", "SCALED_IMU3", "SCALED_PRESSURE", "SCALED_PRESSURE2",
    ),
    mav.MAV_DATA_STREAM_EXTENDED_STATUS: (
        "SYS_STATUS", "POWER_STATUS", "MEMINFO", "MISSION_CURRENT", "GPS_RAW_INT", "NAV_CONTROLLER_OUTPUT",
    ),
    mav.MAV_DATA_STREAM_RC_CHANNELS: ("SERVO_OUTPUT_RAW", "RC_CHANNELS"),
    mav.MAV_DATA_STREAM_POSITION: ("GLOBAL_POSITION_INT", "LOCAL_POSITION_NED"),
    mav.MAV_DATA_STREAM_EXTRA1: ("ATTITUDE", "SIMSTATE", "AHRS2"),
    mav.MAV_DATA_STREAM_EXTRA2: ("VFR_HUD",),
    mav.MAV_DATA_STREAM_EXTRA3: (
        "AHRS", "SYSTEM_TIME", "WIND", "TERRAIN_REPORT", "BATTERY_STATUS", "EKF_STATUS_REPORT", "VIBRATION",
        "ESC_TELEMETRY_1_TO_4",
    ),
}  # fmt: skip


@cache
def extra_periods_us(profile: Profile) -> dict[str, int]:
    """Periods in µs of the messages that `default` adds to a profile's own."""
    mine = profile.sizes
    rows = load_profile(DEFAULT_PROFILE).mix
    return {r.name: round(1e6 / r.rate_hz) for r in rows if r.name not in mine and r.name not in FIXED_NAMES}


def group(stream_id: int) -> tuple[str, ...]:
    """Messages of a MAV_DATA_STREAM; all of them for 0, none for one that ArduCopter has not."""
    if stream_id == mav.MAV_DATA_STREAM_ALL:
        return tuple(name for names in STREAM_GROUPS.values() for name in names)
    return STREAM_GROUPS.get(stream_id, ())


def home_position(s: FlightState, boot_us: int) -> Message:
    lat_deg, lon_deg = degrees_of(*s.home_m)
    level = (1.0, 0.0, 0.0, 0.0)
    return mav.MAVLink_home_position_message(
        int(lat_deg * 1e7),
        int(lon_deg * 1e7),
        round(HOME_ALT_M * 1000),
        *s.home_m,
        0.0,
        level,
        0.0,
        0.0,
        0.0,
        boot_us,
    )


def extended_sys_state(s: FlightState, boot_us: int) -> Message:
    landed = mav.MAV_LANDED_STATE_ON_GROUND if s.alt_m <= 0.05 else mav.MAV_LANDED_STATE_IN_AIR
    return mav.MAVLink_extended_sys_state_message(mav.MAV_VTOL_STATE_UNDEFINED, landed)


def position_target(s: FlightState, boot_us: int) -> Message:
    lat_deg, lon_deg = degrees_of(*s.target_m[:2])
    lat_deg, lon_deg = max(-90.0, min(90.0, lat_deg)), max(-180.0, min(180.0, lon_deg))
    return mav.MAVLink_position_target_global_int_message(
        (boot_us // 1000) & 0xFFFFFFFF,
        mav.MAV_FRAME_GLOBAL_INT,
        0x0FF8,
        int(lat_deg * 1e7),
        int(lon_deg * 1e7),
        HOME_ALT_M + s.target_m[2],
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        math.remainder(s.yaw_rad, math.tau),
        0.0,
    )


ALL_BUILDERS: dict[str, Builder] = {
    **BUILDERS,
    "HOME_POSITION": home_position,
    "GPS_GLOBAL_ORIGIN": lambda _s, boot_us: mav.MAVLink_gps_global_origin_message(
        int(HOME_LAT_DEG * 1e7), int(HOME_LON_DEG * 1e7), round(HOME_ALT_M * 1000), boot_us
    ),
    "EXTENDED_SYS_STATE": extended_sys_state,
    "POSITION_TARGET_GLOBAL_INT": position_target,
    "AUTOPILOT_VERSION": lambda _s, _boot_us: autopilot_version(),
}
"""Every message that can be asked for."""

MESSAGE_IDS: dict[int, str] = {
    message_id: message.msgname
    for message_id, message in mav.mavlink_map.items()
    if message.msgname in ALL_BUILDERS
}
"""Names by message id, for SET_MESSAGE_INTERVAL and REQUEST_MESSAGE."""
