"""Telemetry messages out of a flight state, with the sizes the profile measured.

MAVLink 2 cuts trailing zero bytes off the payload, so the length of a frame depends on its values. Fields
that were zero on the recorded vehicle stay zero here and fields that were not never become so; a test holds
every encoded length against the profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import HOME_ALT_M, FlightState

Message = mav.MAVLink_message
Builder = Callable[[FlightState, int], Message]

_LEAST = 1e-4
"""Stand-in for an exact 0.0 in a field whose last byte must survive truncation."""


def _nz(value: float) -> float:
    return value if abs(value) > _LEAST else _LEAST


def _ms(boot_us: int) -> int:
    return (boot_us // 1000) & 0xFFFFFFFF


def _e7(degrees: float) -> int:
    return int(degrees * 1e7)


def heartbeat(s: FlightState, boot_us: int) -> Message:
    base = mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | mav.MAV_MODE_FLAG_STABILIZE_ENABLED
    base |= mav.MAV_MODE_FLAG_GUIDED_ENABLED if s.mode in (3, 4) else 0
    base |= mav.MAV_MODE_FLAG_SAFETY_ARMED if s.armed else 0
    status = mav.MAV_STATE_ACTIVE if s.armed else mav.MAV_STATE_STANDBY
    return mav.MAVLink_heartbeat_message(
        mav.MAV_TYPE_QUADROTOR, mav.MAV_AUTOPILOT_ARDUPILOTMEGA, base, s.mode, status, 3
    )


def attitude(s: FlightState, boot_us: int) -> Message:
    yaw = math.remainder(s.yaw_rad, math.tau)
    return mav.MAVLink_attitude_message(
        _ms(boot_us), s.roll_rad, s.pitch_rad, yaw, s.rates_rads[0], s.rates_rads[1], _nz(s.rates_rads[2])
    )


def global_position_int(s: FlightState, boot_us: int) -> Message:
    heading_cdeg = max(256, int(math.degrees(s.yaw_rad) * 100) % 36000)
    return mav.MAVLink_global_position_int_message(
        _ms(boot_us),
        _e7(s.lat_deg),
        _e7(s.lon_deg),
        int((HOME_ALT_M + s.alt_m) * 1000),
        int(s.alt_m * 1000),
        int(s.vel_north_ms * 100),
        int(s.vel_east_ms * 100),
        int(-s.climb_ms * 100),
        heading_cdeg,
    )


def vfr_hud(s: FlightState, boot_us: int) -> Message:
    ground = math.hypot(s.vel_north_ms, s.vel_east_ms)
    heading = int(math.degrees(s.yaw_rad)) % 360
    return mav.MAVLink_vfr_hud_message(
        ground, ground, heading, s.throttle_pct, HOME_ALT_M + s.alt_m, s.climb_ms
    )


def _imu(s: FlightState) -> tuple[int, int, int, int, int, int, int, int, int]:
    ax, ay, az = (int(a * 1000 / 9.80665) for a in s.accel_mss)
    gx, gy, gz = (int(r * 1000) for r in s.rates_rads)
    return ax, ay, az, gx, gy, gz, 232, 52, -528


def sys_status(s: FlightState, boot_us: int) -> Message:
    sensors = 0x5361FC2F
    volts, amps = int(s.voltage_v * 1000), int(s.current_a * 100)
    no_errors = (0, 0, 0, 0, 0, 0)
    return mav.MAVLink_sys_status_message(
        sensors, sensors, sensors, 130, volts, amps, s.battery_remaining_pct, *no_errors
    )


def rc_channels(s: FlightState, boot_us: int) -> Message:
    channels = (1500, 1500, 1000, 1500, 1800, 1000, 1000, 1800)
    return mav.MAVLink_rc_channels_message(_ms(boot_us), 16, *channels, *(0,) * 10, 255)


def gps_raw_int(s: FlightState, boot_us: int) -> Message:
    speed = int(math.hypot(s.vel_north_ms, s.vel_east_ms) * 100)
    alt_mm = int((HOME_ALT_M + s.alt_m) * 1000)
    return mav.MAVLink_gps_raw_int_message(
        boot_us,
        6,
        _e7(s.lat_deg),
        _e7(s.lon_deg),
        alt_mm,
        121,
        200,
        speed,
        0,
        10,
        alt_mm + 18_000,
        300,
        300,
        0,
        0,
        0,
    )


def battery_status(s: FlightState, boot_us: int) -> Message:
    cells = [int(s.voltage_v * 1000), *([65535] * 9)]
    return mav.MAVLink_battery_status_message(
        0,
        0,
        0,
        32767,
        cells,
        int(s.current_a * 100),
        int(s.consumed_mah),
        int(s.consumed_mah * 0.42),
        s.battery_remaining_pct,
        0,
        mav.MAV_BATTERY_CHARGE_STATE_OK,
    )


def esc_telemetry(s: FlightState, boot_us: int) -> Message:
    volts = [int(s.voltage_v * 100)] * 4
    amps = [int(s.current_a * 25)] * 4
    rpm = [max(0, 4 * (us - 1000)) for us in s.servos_us]
    return mav.MAVLink_esc_telemetry_1_to_4_message(
        [38, 38, 39, 39], volts, amps, [int(s.consumed_mah / 4)] * 4, rpm, [(boot_us // 20_000) & 0xFFFF] * 4
    )


BUILDERS: dict[str, Builder] = {
    "HEARTBEAT": heartbeat,
    "ATTITUDE": attitude,
    "LOCAL_POSITION_NED": lambda s, boot_us: mav.MAVLink_local_position_ned_message(
        _ms(boot_us), s.north_m, s.east_m, -s.alt_m, s.vel_north_ms, s.vel_east_ms, _nz(-s.climb_ms)
    ),
    "GLOBAL_POSITION_INT": global_position_int,
    "VFR_HUD": vfr_hud,
    "SERVO_OUTPUT_RAW": lambda s, boot_us: mav.MAVLink_servo_output_raw_message(
        boot_us & 0xFFFFFFFF, 0, *s.servos_us, 0, 0, 0, 0
    ),
    "RAW_IMU": lambda s, boot_us: mav.MAVLink_raw_imu_message(boot_us, *_imu(s), 0, 4500),
    "SCALED_IMU2": lambda s, boot_us: mav.MAVLink_scaled_imu2_message(_ms(boot_us), *_imu(s), 4500),
    "SCALED_IMU3": lambda s, boot_us: mav.MAVLink_scaled_imu3_message(_ms(boot_us), *_imu(s)),
    "SYS_STATUS": sys_status,
    "POWER_STATUS": lambda _s, _boot_us: mav.MAVLink_power_status_message(5000, 0, 0),
    "MEMINFO": lambda _s, _boot_us: mav.MAVLink_meminfo_message(0, 65535, 131072),
    "NAV_CONTROLLER_OUTPUT": lambda s, _boot_us: mav.MAVLink_nav_controller_output_message(
        math.degrees(s.roll_rad), math.degrees(s.pitch_rad), -9, 0, 0, s.target_m[2] - s.alt_m, 0.0, 0.0
    ),
    "MISSION_CURRENT": lambda s, _boot_us: mav.MAVLink_mission_current_message(
        s.mission_seq, s.mission_total, s.mission_state
    ),
    "RC_CHANNELS": rc_channels,
    "SCALED_PRESSURE": lambda s, boot_us: mav.MAVLink_scaled_pressure_message(
        _ms(boot_us), 945.0 - 0.115 * s.alt_m, 0.0, 3500
    ),
    "SCALED_PRESSURE2": lambda s, boot_us: mav.MAVLink_scaled_pressure2_message(
        _ms(boot_us), 945.0 - 0.115 * s.alt_m, 0.0, 3500
    ),
    "GPS_RAW_INT": gps_raw_int,
    "SYSTEM_TIME": lambda _s, boot_us: mav.MAVLink_system_time_message(
        1_735_689_600_000_000 + boot_us, _ms(boot_us)
    ),
    "SIMSTATE": lambda s, _boot_us: mav.MAVLink_simstate_message(
        s.roll_rad, s.pitch_rad, s.yaw_rad, *s.accel_mss, *s.rates_rads, _e7(s.lat_deg), _e7(s.lon_deg)
    ),
    "WIND": lambda _s, _boot_us: mav.MAVLink_wind_message(-180.0, 0.0, 0.0),
    "AHRS": lambda _s, _boot_us: mav.MAVLink_ahrs_message(0.0, 0.0, 0.0, 0.0, 0.0, 0.0012, 0.0031),
    "AHRS2": lambda s, _boot_us: mav.MAVLink_ahrs2_message(
        s.roll_rad, s.pitch_rad, s.yaw_rad, HOME_ALT_M + s.alt_m, _e7(s.lat_deg), _e7(s.lon_deg)
    ),
    "EKF_STATUS_REPORT": lambda _s, _boot_us: mav.MAVLink_ekf_status_report_message(
        831, 0.012, 0.008, 0.021, 0.031, 0.0
    ),
    "VIBRATION": lambda _s, boot_us: mav.MAVLink_vibration_message(boot_us, 0.003, 0.003, 0.004, 0, 0, 0),
    "BATTERY_STATUS": battery_status,
    "ESC_TELEMETRY_1_TO_4": esc_telemetry,
    "TERRAIN_REPORT": lambda s, _boot_us: mav.MAVLink_terrain_report_message(
        _e7(s.lat_deg), _e7(s.lon_deg), 0, 0.0, 0.0, 504, 0
    ),
    "TERRAIN_REQUEST": lambda s, _boot_us: mav.MAVLink_terrain_request_message(
        _e7(s.lat_deg), _e7(s.lon_deg), 100, 0x00FFFFFFFFFFFFFF
    ),
    "TIMESYNC": lambda _s, boot_us: mav.MAVLink_timesync_message(0, boot_us * 1000 + 1),
}
"""Every message of the profiles but PARAM_VALUE, which the parameter table answers for."""
