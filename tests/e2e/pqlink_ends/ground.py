"""What QGroundControl asks of a vehicle when it meets it, by pymavlink, beside `pqlink` at a ground station.

Its version and parameters, a plan there and back, a mode, arming; heartbeats of its own meanwhile. Prints
one JSON object. Message and command numbers are those of MAVLink's `common.xml`.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pymavlink import mavutil

mav = mavutil.mavlink
QGC_SYSTEM, QGC_COMPONENT = 255, 190
WAIT_S = 120.0
#: a lost message is asked for again
AGAIN_S = 2.0
GUIDED = 4  # ArduCopter's
PLAN_KIND = mav.MAV_MISSION_TYPE_MISSION
FRAME = mav.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT
#: command, latitude and longitude in 1e-7 degrees, altitude in m; the first is home
PLAN = [(16, 0, 0, 0.0), (22, 0, 0, 8.0), (16, -353631000, 1491652370, 10.0), (20, 0, 0, 0.0)]


class Ground:
    """A ground station at the link's `application`, and the vehicle that it heard first."""

    def __init__(self) -> None:
        self.port = mavutil.mavlink_connection(
            "udpin:127.0.0.1:14550",
            source_system=QGC_SYSTEM,
            source_component=QGC_COMPONENT,
            dialect="ardupilotmega",
        )
        self.say, self._spoke_s = self.port.mav, 0.0
        first = self.hear("HEARTBEAT")
        self.kind = [first.type, first.autopilot]
        self.vehicle = (first.get_srcSystem(), first.get_srcComponent())

    def hear(self, kind: str | list[str], ask: Callable[[], None] | None = None, **fields: Any) -> Any:
        """The next message of this kind with these fields; `ask` is said, and again until it comes."""
        end_s, asked_s = time.monotonic() + WAIT_S, 0.0
        while time.monotonic() < end_s:
            now_s = time.monotonic()
            if now_s - self._spoke_s >= 1.0:
                self._spoke_s = now_s
                self.say.heartbeat_send(6, 8, 0, 0, 4)  # a ground station, no autopilot, active
            if ask is not None and now_s - asked_s >= AGAIN_S:
                asked_s = now_s
                ask()
            message = self.port.recv_match(type=kind, blocking=True, timeout=0.2)
            if message and all(getattr(message, name) == value for name, value in fields.items()):
                return message
        raise SystemExit(f"no {kind} with {fields} within {WAIT_S:.0f} s")

    def command(self, number: int, *values: float) -> int:
        """Ordered until it is acknowledged; the result."""
        given = (*values, *([0.0] * (7 - len(values))))
        order = partial(self.say.command_long_send, *self.vehicle, number, 0, *given)
        return int(self.hear("COMMAND_ACK", order, command=number).result)

    def parameters(self) -> tuple[int, int]:
        """(told, declared); what is missing is asked for one by one."""
        first = self.hear("PARAM_VALUE", partial(self.say.param_request_list_send, *self.vehicle))
        count, found = int(first.param_count), {int(first.param_index)}
        end_s = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < end_s:
            message = self.port.recv_match(type="PARAM_VALUE", blocking=True, timeout=AGAIN_S)
            if message is None:
                missing = min(set(range(count)) - found)
                self.say.param_request_read_send(*self.vehicle, b"", missing)
            elif message.param_index < count:
                found.add(int(message.param_index))
        return len(found), count

    def plan(self) -> int:
        """Sent; how it was acknowledged."""
        begin = partial(self.say.mission_count_send, *self.vehicle, len(PLAN), PLAN_KIND)
        asked: Callable[[], None] | None = begin
        while True:
            message = self.hear(["MISSION_REQUEST_INT", "MISSION_REQUEST", "MISSION_ACK"], asked)
            asked = None
            if message.get_type() == "MISSION_ACK":
                return int(message.type)
            number, latitude, longitude, altitude = PLAN[message.seq]
            where = (0, 0, 0, 0, latitude, longitude, altitude)
            self.say.mission_item_int_send(*self.vehicle, message.seq, FRAME, number, 0, 1, *where, PLAN_KIND)

    def plan_back(self) -> list[tuple[int, int, int, float]]:
        """As the vehicle has it, without home."""
        ask = partial(self.say.mission_request_list_send, *self.vehicle, PLAN_KIND)
        held = []
        for place in range(1, self.hear("MISSION_COUNT", ask).count):
            ask = partial(self.say.mission_request_int_send, *self.vehicle, place, PLAN_KIND)
            item = self.hear("MISSION_ITEM_INT", ask, seq=place)
            held.append((int(item.command), int(item.x), int(item.y), float(item.z)))
        self.say.mission_ack_send(*self.vehicle, mav.MAV_MISSION_ACCEPTED, PLAN_KIND)
        return held

    def armed(self) -> bool:
        """Does a heartbeat say so, in time?"""
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            if self.hear("HEARTBEAT").base_mode & mav.MAV_MODE_FLAG_SAFETY_ARMED:
                return True
        return False


def main() -> None:
    ground = Ground()
    told: dict[str, Any] = {"heartbeat": ground.kind}
    asked = ground.command(mav.MAV_CMD_REQUEST_MESSAGE, mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION)
    told["version_asked"] = asked
    told["parameters"], told["parameters_declared"] = ground.parameters()
    speed = partial(ground.say.param_set_send, *ground.vehicle, b"WPNAV_SPEED", 800.0, 9)
    ground.hear("PARAM_VALUE", speed, param_id="WPNAV_SPEED", param_value=800.0)
    told["plan_acknowledged"] = ground.plan()
    told["plan_back"] = ground.plan_back() == PLAN[1:]
    told["mode_ordered"] = ground.command(mav.MAV_CMD_DO_SET_MODE, 1.0, GUIDED)
    ground.hear("HEARTBEAT", custom_mode=GUIDED)
    told["arming_ordered"] = ground.command(mav.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
    told["armed"] = ground.armed()
    print(json.dumps(told))


main()
