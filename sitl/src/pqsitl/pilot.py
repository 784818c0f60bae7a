"""Flies the stored mission in AUTO: item after item, as positions that the flight model follows.

Sans-IO: `step` at every poll. Commands that move the vehicle are flown one at a time; the rest are done at
once or passed over with a word (`pqsitl.mission` says which).
"""

from __future__ import annotations

import math

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import HOME_ALT_M, Flight, local_m
from pqsitl.identity import text
from pqsitl.mission import ABSOLUTE, DONE_AT_ONCE, FLOWN, Item, MissionStore
from pqsitl.params import ParameterTable

ARRIVED_ALT_M = 0.5
CIRCLE_RADIUS_M = 10.0
TURN_RADS = 1.0
"""How fast the nose turns to the course, rad/s."""
MAX_AT_ONCE = 100
"""Items in a row that move nothing: more is a jump that never ends."""
FOREVER = -1


def _number(value: float, otherwise: float = 0.0) -> float:
    """Ground stations write NaN for "not said"."""
    return value if math.isfinite(value) else otherwise


class MissionPilot:
    """Where in the mission the vehicle is, and what it does there."""

    def __init__(self, flight: Flight, store: MissionStore, params: ParameterTable) -> None:
        self._flight = flight
        self._store = store
        self._params = params
        self._jumps: dict[int, int] = {}
        self._begun = False
        self._arrived_ns: int | None = None
        self._centre_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
        self._angle_rad = 0.0
        self._last_ns = 0
        self.said: list[mav.MAVLink_message] = []
        """Messages for the ground since the vehicle took them last."""

    def refusal(self) -> str | None:
        """Why AUTO cannot be flown now, None when it can."""
        if len(self._store.items) < 2:
            return "no mission is stored"
        first = next((item for item in self._store.items[1:] if item.command in FLOWN), None)
        if first is None:
            return "the mission moves nothing"
        state = self._flight.state
        if state.armed and self._flight.landed and first.command != mav.MAV_CMD_NAV_TAKEOFF:
            return "the first item is no takeoff"
        return None

    def changed(self) -> None:
        """Another mission is stored: it begins at its first item."""
        state = self._flight.state
        state.mission_seq = 0
        state.mission_total = max(0, len(self._store.items) - 1)
        empty = state.mission_total == 0
        state.mission_state = mav.MISSION_STATE_NO_MISSION if empty else mav.MISSION_STATE_NOT_STARTED
        self._jumps.clear()
        self._forget()

    def start(self) -> None:
        """AUTO was entered: go on with the current item, or from the first one after the end."""
        state = self._flight.state
        if state.mission_state == mav.MISSION_STATE_COMPLETE or state.mission_seq == 0:
            state.mission_seq = 1
            self._jumps.clear()
        state.mission_state = mav.MISSION_STATE_ACTIVE
        self._forget()

    def leave(self) -> None:
        """AUTO was left."""
        state = self._flight.state
        if state.mission_state == mav.MISSION_STATE_ACTIVE:
            state.mission_state = mav.MISSION_STATE_PAUSED
        self._forget()

    def set_current(self, seq: int) -> bool:
        """Go to an item; False when there is none of that number."""
        if not 0 <= seq < len(self._store.items):
            return False
        state = self._flight.state
        state.mission_seq = seq
        if state.mission_state == mav.MISSION_STATE_COMPLETE:
            state.mission_state = mav.MISSION_STATE_PAUSED
        self._forget()
        return True

    def step(self, now_ns: int) -> None:
        """Fly on; called while the mode is AUTO."""
        state = self._flight.state
        step_s = min(1.0, max(0, now_ns - self._last_ns) / 1e9)
        self._last_ns = now_ns
        if state.mission_state != mav.MISSION_STATE_ACTIVE or not state.armed:
            return
        if not self._begun and not self._begin():
            return
        item = self._store.items[state.mission_seq]
        self._turn(step_s)
        if self._done(item, now_ns, step_s):
            self.said.append(mav.MAVLink_mission_item_reached_message(state.mission_seq))
            if state.mission_state == mav.MISSION_STATE_ACTIVE:
                state.mission_seq += 1
            self._forget()

    def _forget(self) -> None:
        self._begun = False
        self._arrived_ns = None

    def _begin(self) -> bool:
        """Take up the next item that moves the vehicle; False at the end of the mission."""
        state, items = self._flight.state, self._store.items
        state.mission_seq = max(1, state.mission_seq)
        for _ in range(MAX_AT_ONCE):
            if state.mission_seq >= len(items):
                self._complete("Mission: complete")
                return False
            item = items[state.mission_seq]
            if item.command in FLOWN:
                break
            self._at_once(item)
        else:
            self._complete("Mission: jumps that move nothing, ended")
            return False
        self._begun = True
        self._flight.returning = False
        self._aim(item)
        self.said.append(mav.MAVLink_mission_current_message(state.mission_seq, state.mission_total, 3))
        self.said.append(text(f"Mission: {state.mission_seq} {_name(item.command)}"))
        return True

    def _complete(self, words: str) -> None:
        flight, state = self._flight, self._flight.state
        state.mission_seq = min(state.mission_seq, len(self._store.items) - 1)
        state.mission_state = mav.MISSION_STATE_COMPLETE
        flight.hold()
        if flight.landed:
            flight.arm(False)
        self.said.append(text(words))

    def _at_once(self, item: Item) -> None:
        state = self._flight.state
        if item.command == mav.MAV_CMD_DO_JUMP and self._jump(item):
            return
        if item.command == mav.MAV_CMD_DO_CHANGE_SPEED and _number(item.param2) > 0:
            self._flight.max_speed_ms = min(item.param2, 20.0)
        elif item.command not in DONE_AT_ONCE:
            self.said.append(text(f"Mission: {state.mission_seq} {_name(item.command)} passed over"))
        state.mission_seq += 1

    def _jump(self, item: Item) -> bool:
        state = self._flight.state
        goal, times = int(_number(item.param1)), int(_number(item.param2))
        done = self._jumps.get(state.mission_seq, 0)
        if not 1 <= goal < len(self._store.items) or (times != FOREVER and done >= times):
            return False
        self._jumps[state.mission_seq] = done + 1
        state.mission_seq = goal
        return True

    def _aim(self, item: Item) -> None:
        flight, state = self._flight, self._flight.state
        north_m, east_m = state.north_m, state.east_m
        if item.x != 0 or item.y != 0:
            north_m, east_m = local_m(item.x * 1e-7, item.y * 1e-7)
        alt_m = item.z - HOME_ALT_M if item.frame in ABSOLUTE else item.z
        self._angle_rad = 0.0
        if item.command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            flight.return_home()
        elif item.command == mav.MAV_CMD_NAV_DELAY:
            flight.hold()
        elif item.command == mav.MAV_CMD_NAV_TAKEOFF:
            flight.fly_to(state.north_m, state.east_m, max(alt_m, 1.0))
        elif item.command == mav.MAV_CMD_NAV_LAND:
            flight.fly_to(north_m, east_m, state.alt_m)
        elif not flight.fly_to(north_m, east_m, max(alt_m, 1.0)):
            flight.hold()
        self._centre_m = state.target_m

    def _turn(self, step_s: float) -> None:
        """Face the place that is flown to (WP_YAW_BEHAVIOR 1 and 2)."""
        state = self._flight.state
        north_m, east_m = state.target_m[0] - state.north_m, state.target_m[1] - state.east_m
        if (
            self._flight.returning
            or self._params["WP_YAW_BEHAVIOR"] == 0
            or math.hypot(north_m, east_m) < 3.0
        ):
            return
        off = math.remainder(math.atan2(east_m, north_m) - state.yaw_rad, math.tau)
        most = TURN_RADS * step_s
        state.yaw_rad = (state.yaw_rad + max(-most, min(most, off))) % math.tau

    def _arrived(self) -> bool:
        state, radius_m = self._flight.state, self._params["WPNAV_RADIUS"] / 100
        north_m, east_m, alt_m = self._centre_m
        near = math.hypot(north_m - state.north_m, east_m - state.east_m) <= max(radius_m, 0.5)
        return near and abs(alt_m - state.alt_m) <= max(radius_m, ARRIVED_ALT_M)

    def _done(self, item: Item, now_ns: int, step_s: float) -> bool:
        flight, state, command = self._flight, self._flight.state, item.command
        if command == mav.MAV_CMD_NAV_TAKEOFF:
            return state.alt_m >= state.target_m[2] - ARRIVED_ALT_M
        if command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            return self._grounded() if flight.landed and state.target_m[2] <= 0 else False
        if command == mav.MAV_CMD_NAV_LAND and state.target_m[2] <= 0:
            return self._grounded() if flight.landed else False
        if self._arrived_ns is None:
            if command != mav.MAV_CMD_NAV_DELAY and not self._arrived():
                return False
            self._arrived_ns = now_ns
        if command == mav.MAV_CMD_NAV_LAND:
            flight.fly_to(state.target_m[0], state.target_m[1], 0.0)
            return False
        if command == mav.MAV_CMD_NAV_LOITER_UNLIM:
            return False
        if command == mav.MAV_CMD_NAV_LOITER_TURNS:
            return self._circled(item, step_s)
        return now_ns - self._arrived_ns >= max(0.0, _number(item.param1)) * 1e9

    def _grounded(self) -> bool:
        """On the ground at the end of a landing item; with nothing to take off after it, disarmed."""
        state = self._flight.state
        rest = self._store.items[state.mission_seq + 1 :]
        if not any(item.command == mav.MAV_CMD_NAV_TAKEOFF for item in rest):
            self._flight.arm(False)
            self.said.append(text("Mission: landed and disarmed"))
            state.mission_state = mav.MISSION_STATE_COMPLETE
        return True

    def _circled(self, item: Item, step_s: float) -> bool:
        """Turns about the point, at the circle that the speed allows; done after `param1` of them."""
        radius_m = min(abs(_number(item.param3)) or CIRCLE_RADIUS_M, 1000.0)
        sign = -1.0 if _number(item.param3) < 0 else 1.0
        self._angle_rad += step_s * min(0.7, self._flight.max_speed_ms / radius_m)
        north_m, east_m, alt_m = self._centre_m
        angle_rad = sign * self._angle_rad
        self._flight.fly_to(
            north_m + radius_m * math.cos(angle_rad), east_m + radius_m * math.sin(angle_rad), alt_m
        )
        return self._angle_rad >= math.tau * max(0.0, item.param1)


def _name(command: int) -> str:
    return mav.enums["MAV_CMD"][command].name.removeprefix("MAV_CMD_").removeprefix("NAV_")
