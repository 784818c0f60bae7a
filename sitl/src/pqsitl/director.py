"""Brings an ArduCopter from boot to a hover, sans-IO: messages and a clock in, messages out.

Phases: boot (no heartbeat yet) → settle (the estimator needs 42–45 s; arming before 60 s is refused often
enough to wait) → guided → arm → takeoff → climb → ready, or failed with the autopilot's own last words. A
failsafe leads from ready to landing, and from the ground to guided again. While a pilot has it, nothing is
judged or asked; given back away from its hover, it is sent home first.
"""

from __future__ import annotations

from collections import deque

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import GUIDED

DIRECTOR_SYSTEM_ID, DIRECTOR_COMPONENT_ID = 254, 190
NS = 1_000_000_000
HEARTBEAT_PERIOD_NS = NS
RETRY_NS = 2 * NS
TAKEOFF_ALT_M = 10.0
REACHED_SHARE = 0.9
#: a pilot may have left it at the rim of the fence, and it comes down at half a metre a second in the end
RETURN_LIMIT_NS = 900 * NS
#: custom modes of ArduCopter that a failsafe takes it to
MODES = {0: "STABILIZE", 2: "ALT_HOLD", 5: "LOITER", 6: "RTL", 9: "LAND", 17: "BRAKE", 21: "SMART_RTL"}
RTL, LAND = 6, 9
#: the phases in which something is asked of it
_ASKS = frozenset({"guided", "arm", "takeoff", "climb"})
_COMMAND_OF_PHASE = {
    "guided": mav.MAV_CMD_DO_SET_MODE,
    "arm": mav.MAV_CMD_COMPONENT_ARM_DISARM,
    "takeoff": mav.MAV_CMD_NAV_TAKEOFF,
}


class FlightDirector:
    """One launch. `poll` about ten times a second; hand it every message of the autopilot."""

    def __init__(self, start_ns: int, *, settle_s: float = 60.0, limit_s: float = 240.0) -> None:
        self.phase = "boot"
        self.failure: str | None = None
        #: why it left its last hover; None while it never did
        self.lost: str | None = None
        self.refusals = 0
        self.refly_count = 0
        self.version: str | None = None
        self._start_ns = start_ns
        self._settle_ns = round(settle_s * NS)
        self._limit_ns = round(limit_s * NS)
        self._first_heartbeat_ns = 0
        self._heartbeat_due_ns = start_ns
        self._asked_ns = 0
        #: somebody else flies it
        self.piloted = False
        self._returning = False
        self._armed = False
        self._mode = -1
        self._alt_m = 0.0
        self._words: deque[str] = deque(maxlen=4)

    def hand_to_pilot(self) -> None:
        """Judge nothing and ask nothing of it from now on; our heartbeat goes on."""
        self.piloted = True

    def take_back(self, now_ns: int) -> None:
        """The pilot is gone: it hovers where it should, or comes home and is brought there again."""
        self.piloted = False
        if self.phase in ("boot", "settle", "failed"):
            return
        reached = TAKEOFF_ALT_M * REACHED_SHARE <= self._alt_m <= TAKEOFF_ALT_M / REACHED_SHARE
        if self._armed and self._mode == GUIDED and reached:
            self._enter("ready")
            return
        self._start_ns, self._limit_ns = now_ns, RETURN_LIMIT_NS
        self._returning = True
        self._enter("landing")

    def retry_after_s(self, now_ns: int) -> float:
        """A guess at the time until `ready`, for callers that have to wait."""
        if self.phase == "ready":
            return 0.0
        climb_s = 15.0
        if self.phase == "boot":
            return self._settle_ns / NS + climb_s
        left_ns = max(0, self._first_heartbeat_ns + self._settle_ns - now_ns)
        return left_ns / NS + climb_s

    def receive(self, message: mav.MAVLink_message, now_ns: int) -> None:
        """Take note of one message of the autopilot."""
        if isinstance(message, mav.MAVLink_heartbeat_message):
            if message.autopilot == mav.MAV_AUTOPILOT_ARDUPILOTMEGA:
                self._beat(message, now_ns)
        elif isinstance(message, mav.MAVLink_global_position_int_message):
            self._alt_m = message.relative_alt / 1000.0
        elif isinstance(message, mav.MAVLink_statustext_message):
            self._words.append(message.text.strip("\0"))
        elif isinstance(message, mav.MAVLink_autopilot_version_message):
            number = message.flight_sw_version
            self.version = f"{number >> 24 & 255}.{number >> 16 & 255}.{number >> 8 & 255}"
        elif isinstance(message, mav.MAVLink_command_ack_message):
            self._acknowledged(message)
        self._advance(now_ns)

    def _beat(self, message: mav.MAVLink_heartbeat_message, now_ns: int) -> None:
        self._armed = bool(message.base_mode & mav.MAV_MODE_FLAG_SAFETY_ARMED)
        self._mode = message.custom_mode
        if self.phase == "boot":
            self._first_heartbeat_ns = now_ns
            self.phase = "settle"
        elif self.piloted:
            return
        elif self.phase == "ready" and (not self._armed or self._mode != GUIDED):
            # A failsafe lands it. The window is lost, the campaign is not: fly again from the ground.
            self._leave_hover(now_ns)
        if self.phase == "landing" and not self._armed:
            self._start_ns = now_ns
            self._returning = False
            self._alt_m = 0.0
            self._enter("guided")

    def _leave_hover(self, now_ns: int) -> None:
        how = "disarmed" if not self._armed else f"in mode {MODES.get(self._mode, self._mode)}"
        words = " | ".join(self._words)
        self.lost = f"it is {how}; its last words: {words or 'none'}"
        self.refly_count += 1
        self._start_ns = now_ns
        self._enter("landing")

    def poll(self, now_ns: int) -> list[mav.MAVLink_message]:
        """Messages to send now: heartbeat, and the phase's command until it has worked."""
        self._advance(now_ns)
        messages: list[mav.MAVLink_message] = []
        if now_ns >= self._heartbeat_due_ns:
            self._heartbeat_due_ns = now_ns + HEARTBEAT_PERIOD_NS
            messages.append(
                mav.MAVLink_heartbeat_message(mav.MAV_TYPE_GCS, mav.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3)
            )
        if self.piloted or self.phase in ("ready", "failed"):
            return messages
        if now_ns - self._start_ns > self._limit_ns:
            self._fail(f"still in phase {self.phase!r} after {self._limit_ns / NS:.0f} s")
            return messages
        if (self.phase in _ASKS or self._returning) and now_ns - self._asked_ns >= RETRY_NS:
            self._asked_ns = now_ns
            messages += self._commands()
        return messages

    def _commands(self) -> list[mav.MAVLink_message]:
        flag = mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        if self.phase == "landing":
            return [] if self._mode in (RTL, LAND) else [command(mav.MAV_CMD_DO_SET_MODE, flag, RTL)]
        if self.phase == "guided":
            return [
                command(mav.MAV_CMD_DO_SET_MODE, flag, GUIDED),
                request(mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION),
            ]
        if self.phase == "arm":
            return [command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1)]
        if self.phase == "takeoff":
            return [command(mav.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, TAKEOFF_ALT_M)]
        return [interval(mav.MAVLINK_MSG_ID_GLOBAL_POSITION_INT, 4.0)]

    def _acknowledged(self, message: mav.MAVLink_command_ack_message) -> None:
        if message.command != _COMMAND_OF_PHASE.get(self.phase):
            return
        if message.result not in (mav.MAV_RESULT_ACCEPTED, mav.MAV_RESULT_IN_PROGRESS):
            self.refusals += 1
        elif self.phase == "takeoff":
            self._enter("climb")

    def _advance(self, now_ns: int) -> None:
        if self.piloted:
            return
        if self.phase == "settle" and now_ns - self._first_heartbeat_ns >= self._settle_ns:
            self._enter("guided")
        if self.phase == "guided" and self._mode == GUIDED:
            self._enter("arm")
        if self.phase == "arm" and self._armed:
            self._enter("takeoff")
        if self.phase == "climb":
            if not self._armed:
                self._enter("arm")  # it disarms by itself when the takeoff comes too late
            elif self._alt_m >= REACHED_SHARE * TAKEOFF_ALT_M:
                self._enter("ready")

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._asked_ns = 0

    def _fail(self, why: str) -> None:
        self.phase = "failed"
        words = " | ".join(self._words)
        self.failure = (
            f"{why}; the autopilot's last words: {words or 'none'}; commands refused: {self.refusals}"
        )


def command(number: int, *parameters: float) -> mav.MAVLink_message:
    """COMMAND_LONG to the autopilot (system 1, component 1)."""
    values = (*parameters, *([0.0] * (7 - len(parameters))))
    return mav.MAVLink_command_long_message(1, 1, number, 0, *values)


def request(message_id: int) -> mav.MAVLink_message:
    """MAV_CMD_REQUEST_MESSAGE."""
    return command(mav.MAV_CMD_REQUEST_MESSAGE, message_id)


def interval(message_id: int, rate_hz: float) -> mav.MAVLink_message:
    """MAV_CMD_SET_MESSAGE_INTERVAL; rate 0 switches the message off."""
    period_us = -1 if rate_hz <= 0 else round(1e6 / rate_hz)
    return command(mav.MAV_CMD_SET_MESSAGE_INTERVAL, message_id, period_us)
