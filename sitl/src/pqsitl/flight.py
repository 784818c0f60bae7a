"""A small multicopter: enough physics that every field of the telemetry moves for a reason.

Not ArduPilot: no motors, no estimator, no wind field. Position follows its target with bounded speed and
acceleration, attitude follows from the acceleration, the battery drains with the thrust, and sensor noise
comes from one seeded generator, so that the same seed flies the same flight.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

GRAVITY_MSS = 9.80665
EARTH_RADIUS_M = 6_378_137.0
HOME_LAT_DEG, HOME_LON_DEG, HOME_ALT_M = -35.363262, 149.165237, 584.0
BATTERY_MAH, HOVER_CURRENT_A, IDLE_CURRENT_A = 16_000.0, 16.0, 0.4
MAX_CLIMB_MS, MAX_SPEED_MS, MAX_ACCEL_MSS = 2.5, 5.0, 2.5

RTL_ALT_M = 15.0
MAX_TAKEOFF_M = 10_000.0
MAX_REACH_M = 3e7
"""Further than this is no place on earth, and NaN is nearer to nothing."""
FALL_MS = 10.0

# Copter custom modes (ardupilotmega.xml, COPTER_MODE).
STABILIZE, ALT_HOLD, AUTO, GUIDED, LOITER, RTL, LAND, POSHOLD, BRAKE = 0, 2, 3, 4, 5, 6, 9, 16, 17
KNOWN_MODES = frozenset({STABILIZE, ALT_HOLD, AUTO, GUIDED, LOITER, RTL, LAND, POSHOLD, BRAKE})
LANDING_MODES = frozenset({RTL, LAND})
NO_MISSION = 1
"""MISSION_STATE_NO_MISSION of MAVLink."""


def local_m(lat_deg: float, lon_deg: float) -> tuple[float, float]:
    """North and east of the local origin in metres, on a flat earth."""
    scale_m = EARTH_RADIUS_M * math.cos(math.radians(HOME_LAT_DEG))
    north_m = math.radians(lat_deg - HOME_LAT_DEG) * EARTH_RADIUS_M
    return north_m, math.radians(lon_deg - HOME_LON_DEG) * scale_m


def degrees_of(north_m: float, east_m: float) -> tuple[float, float]:
    """Latitude and longitude of a local position; the inverse of `local_m`."""
    scale_m = EARTH_RADIUS_M * math.cos(math.radians(HOME_LAT_DEG))
    return HOME_LAT_DEG + math.degrees(north_m / EARTH_RADIUS_M), HOME_LON_DEG + math.degrees(
        east_m / scale_m
    )


@dataclass
class FlightState:
    """Vehicle state in local north-east-down metres and radians; `alt_m` is above home."""

    armed: bool = True
    mode: int = GUIDED
    north_m: float = 0.0
    east_m: float = 0.0
    alt_m: float = 10.0
    vel_north_ms: float = 0.0
    vel_east_ms: float = 0.0
    climb_ms: float = 0.0
    roll_rad: float = 0.001
    pitch_rad: float = 0.001
    yaw_rad: float = 6.13
    rates_rads: tuple[float, float, float] = (0.001, 0.001, 0.001)
    accel_mss: tuple[float, float, float] = (0.01, 0.01, -GRAVITY_MSS)
    throttle_pct: int = 39
    servos_us: tuple[int, int, int, int] = (1560, 1560, 1560, 1560)
    current_a: float = HOVER_CURRENT_A
    consumed_mah: float = 0.0
    target_m: tuple[float, float, float] = (0.0, 0.0, 10.0)
    home_m: tuple[float, float] = field(default=(0.0, 0.0))
    mission_seq: int = 0
    mission_total: int = 0
    mission_state: int = NO_MISSION

    @property
    def lat_deg(self) -> float:
        return HOME_LAT_DEG + math.degrees(self.north_m / EARTH_RADIUS_M)

    @property
    def lon_deg(self) -> float:
        return HOME_LON_DEG + math.degrees(
            self.east_m / (EARTH_RADIUS_M * math.cos(math.radians(HOME_LAT_DEG)))
        )

    @property
    def battery_remaining_pct(self) -> int:
        """Never below 1: the lab's flights have no crash to offer."""
        return max(1, round(100.0 * (1.0 - self.consumed_mah / BATTERY_MAH)))

    @property
    def voltage_v(self) -> float:
        return 12.6 - 2.0 * min(1.0, self.consumed_mah / BATTERY_MAH) - 0.01 * self.current_a


def _approach(
    position: float, velocity: float, target: float, limit: float, step_s: float
) -> tuple[float, float]:
    """New velocity and acceleration towards `target` with bounded speed and acceleration."""
    wanted = max(-limit, min(limit, 0.8 * (target - position)))
    accel = max(-MAX_ACCEL_MSS, min(MAX_ACCEL_MSS, (wanted - velocity) / max(step_s, 1e-3)))
    return velocity + accel * step_s, accel


class Flight:
    """Advances a FlightState; sans-IO, the caller owns time."""

    def __init__(self, seed: int, *, airborne: bool = True) -> None:
        self.state = FlightState()
        self._rng = random.Random(seed)
        self.max_speed_ms = MAX_SPEED_MS
        self.rtl_alt_m = RTL_ALT_M
        self.returning = False
        """On the way home to land there: mode RTL, or that item of a mission."""
        if not airborne:
            self.state.armed = False
            self.state.alt_m = 0.0
            self.state.target_m = (0.0, 0.0, 0.0)
            self.state.mode = STABILIZE

    @property
    def landed(self) -> bool:
        return self.state.alt_m <= 0.05

    def arm(self, armed: bool, *, force: bool = False) -> str | None:
        """Arm or disarm; why not, or None. Disarming in flight needs `force`, and then it falls."""
        state = self.state
        if not armed and not self.landed and not force:
            return "not on the ground"
        if armed and not state.armed:
            if state.mode in (AUTO, RTL, LAND):
                return "this mode cannot be armed in"
            state.home_m = (state.north_m, state.east_m)
            self.hold()
        state.armed = armed
        return None

    def takeoff(self, alt_m: float) -> bool:
        """Climb to `alt_m` above home; only armed and in GUIDED, as Copter has it."""
        if not self.state.armed or self.state.mode != GUIDED or not 0 < alt_m < MAX_TAKEOFF_M:
            return False
        self.state.target_m = (self.state.north_m, self.state.east_m, alt_m)
        return True

    def set_mode(self, mode: int) -> bool:
        """Change the mode; an unknown one is refused."""
        if mode not in KNOWN_MODES:
            return False
        state = self.state
        state.mode = mode
        self.returning = False
        if mode == LAND:
            state.target_m = (state.north_m, state.east_m, 0.0)
        elif mode == RTL:
            self.return_home()
        elif mode != AUTO:
            self.hold()
        return True

    def hold(self) -> None:
        """Stay where it is."""
        state = self.state
        self.returning = False
        state.target_m = (state.north_m, state.east_m, 0.0 if self.landed else state.alt_m)

    def return_home(self) -> None:
        """Climb to the return altitude, fly home, land there."""
        state = self.state
        self.returning = True
        alt_m = 0.0 if self.landed else max(state.alt_m, self.rtl_alt_m)
        state.target_m = (state.north_m, state.east_m, alt_m)

    def fly_to(self, north_m: float, east_m: float, alt_m: float) -> bool:
        """Set the position target (GUIDED and AUTO); False where it is no position."""
        if not all(abs(value) < MAX_REACH_M for value in (north_m, east_m, alt_m)):
            return False
        self.state.target_m = (north_m, east_m, alt_m)
        return True

    def _go_home(self) -> None:
        state = self.state
        alt_m = state.target_m[2]
        if abs(state.north_m - state.home_m[0]) + abs(state.east_m - state.home_m[1]) < 1.0:
            state.target_m = (*state.home_m, 0.0)
        elif alt_m > 0.0 and state.alt_m >= alt_m - 0.5:
            state.target_m = (*state.home_m, alt_m)

    def advance(self, step_s: float) -> None:
        """One physics step of `step_s` seconds (callers keep it ≤ 0.1 s)."""
        state, noise = self.state, self._rng.uniform
        if state.armed and (not self.landed or state.target_m[2] > 0.0):
            north_t, east_t, alt_t = state.target_m
            state.vel_north_ms, acc_n = _approach(
                state.north_m, state.vel_north_ms, north_t, self.max_speed_ms, step_s
            )
            state.vel_east_ms, acc_e = _approach(
                state.east_m, state.vel_east_ms, east_t, self.max_speed_ms, step_s
            )
            state.climb_ms, acc_u = _approach(state.alt_m, state.climb_ms, alt_t, MAX_CLIMB_MS, step_s)
            # A hovering vehicle is never quite still.
            state.vel_north_ms += noise(-0.004, 0.004)
            state.vel_east_ms += noise(-0.004, 0.004)
            state.climb_ms += noise(-0.004, 0.004)
            state.north_m += state.vel_north_ms * step_s
            state.east_m += state.vel_east_ms * step_s
            state.alt_m = max(0.0, state.alt_m + state.climb_ms * step_s)
            thrust = 1.0 + acc_u / GRAVITY_MSS
        else:
            acc_n = acc_e = 0.0
            thrust = 0.0
            state.vel_north_ms = state.vel_east_ms = state.climb_ms = 0.0
            if not self.landed:
                state.climb_ms = -FALL_MS
                state.alt_m = max(0.0, state.alt_m - FALL_MS * step_s)
            elif state.armed and state.mode in LANDING_MODES:
                state.armed = self.returning = False
        self._attitude(acc_n, acc_e, thrust, step_s)
        if self.returning:
            self._go_home()
        state.current_a = HOVER_CURRENT_A * thrust**1.5 if thrust > 0 else IDLE_CURRENT_A
        state.consumed_mah += state.current_a * step_s / 3.6

    def _attitude(self, acc_n: float, acc_e: float, thrust: float, step_s: float) -> None:
        state, noise = self.state, self._rng.uniform
        cos_yaw, sin_yaw = math.cos(state.yaw_rad), math.sin(state.yaw_rad)
        forward = (acc_n * cos_yaw + acc_e * sin_yaw) / GRAVITY_MSS
        right = (-acc_n * sin_yaw + acc_e * cos_yaw) / GRAVITY_MSS
        blend = min(1.0, step_s * 8.0)
        pitch = state.pitch_rad + blend * (-forward - state.pitch_rad) + noise(-0.0005, 0.0005)
        roll = state.roll_rad + blend * (right - state.roll_rad) + noise(-0.0005, 0.0005)
        state.rates_rads = (
            (roll - state.roll_rad) / max(step_s, 1e-3),
            (pitch - state.pitch_rad) / max(step_s, 1e-3),
            noise(-0.002, 0.002),
        )
        state.roll_rad, state.pitch_rad = roll, pitch
        state.accel_mss = (
            noise(-0.05, 0.05),
            noise(-0.05, 0.05),
            -GRAVITY_MSS * max(thrust, 0.05) + noise(-0.05, 0.05),
        )
        state.throttle_pct = max(1, min(100, round(39 * thrust)))
        base = 1100 + round(460 * thrust)
        tilt = round(40 * roll), round(40 * pitch)
        state.servos_us = (
            base - tilt[0] + tilt[1],
            base + tilt[0] - tilt[1],
            base + tilt[0] + tilt[1],
            base - tilt[0] - tilt[1],
        )
