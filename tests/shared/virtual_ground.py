"""A ground station in virtual time: asks the embedded vehicle and hears what it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.vehicle import EmbeddedVehicle

NS = 1_000_000_000
START_NS = 5_000 * NS


class Ground:
    """A ground station's end: packs requests, parses answers."""

    def __init__(self, vehicle: EmbeddedVehicle, system_id: int = 255) -> None:
        self.vehicle = vehicle
        self.mav = mav.MAVLink(None, srcSystem=system_id, srcComponent=190)
        self.now_ns = START_NS

    def ask(self, message: Any) -> list[Any]:
        answers = self.vehicle.receive(bytes(message.pack(self.mav)), self.now_ns)
        parser = mav.MAVLink(None)
        return [m for frame in answers for m in parser.parse_buffer(frame)]

    def command(self, number: int, *parameters: float) -> list[Any]:
        values = (*parameters, *([0.0] * (7 - len(parameters))))
        answers = self.ask(mav.MAVLink_command_long_message(1, 1, number, 0, *values))
        assert answers[0].get_type() == "COMMAND_ACK"
        assert answers[0].command == number
        return answers

    def wait(self, seconds: float) -> list[Any]:
        """What is heard in the next `seconds`."""
        return self.until(lambda message: False, seconds)

    def until(self, wanted: Callable[[Any], bool], seconds: float) -> list[Any]:
        """What is heard until one is wanted, for `seconds` at most."""
        end_ns = self.now_ns + round(seconds * NS)
        parser = mav.MAVLink(None)
        heard: list[Any] = []
        while (due := self.vehicle.next_ns) < end_ns:
            self.now_ns = max(self.now_ns, due)
            new = [m for frame in self.vehicle.poll(self.now_ns) for m in parser.parse_buffer(frame)]
            heard += new
            if any(wanted(message) for message in new):
                return heard
        self.now_ns = end_ns
        return heard

    def upload(self, items: list[Any], mission_type: int = 0) -> int:
        """Send a whole list; the MAV_MISSION_RESULT at its end."""
        (answer,) = self.ask(mav.MAVLink_mission_count_message(1, 1, len(items), mission_type))
        while answer.get_type() == "MISSION_REQUEST_INT":
            (answer,) = self.ask(items[answer.seq])
        assert answer.get_type() == "MISSION_ACK"
        assert answer.mission_type == mission_type
        return int(answer.type)

    def download(self, mission_type: int = 0) -> list[Any]:
        (count,) = self.ask(mav.MAVLink_mission_request_list_message(1, 1, mission_type))
        request = mav.MAVLink_mission_request_int_message
        return [self.ask(request(1, 1, seq, mission_type))[0] for seq in range(count.count)]


def plan_item(
    seq: int,
    command: int,
    north_m: float = 0.0,
    alt_m: float = 0.0,
    *,
    params: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
    mission_type: int = 0,
    frame: int = mav.MAV_FRAME_GLOBAL_RELATIVE_ALT,
) -> Any:
    """MISSION_ITEM_INT `north_m` from the vehicle's home; without a place where it is 0."""
    lat = round((-35.363262 + north_m / 111_319.49) * 1e7) if north_m or mission_type else 0
    lon = 1491652370 if north_m or mission_type else 0
    return mav.MAVLink_mission_item_int_message(
        1, 1, seq, frame, command, 0, 1, *params, lat, lon, alt_m, mission_type
    )


def square_plan() -> list[Any]:
    """A short flight with one item of each kind that is flown, home at its end."""
    return [
        plan_item(0, mav.MAV_CMD_NAV_WAYPOINT, 1.0),
        plan_item(1, mav.MAV_CMD_NAV_TAKEOFF, 0.0, 12.0),
        plan_item(2, mav.MAV_CMD_NAV_WAYPOINT, 30.0, 15.0),
        plan_item(3, mav.MAV_CMD_DO_CHANGE_SPEED, params=(1.0, 8.0, 0.0, 0.0)),
        plan_item(4, mav.MAV_CMD_NAV_LOITER_TIME, 60.0, 15.0, params=(5.0, 0.0, 0.0, 0.0)),
        plan_item(5, mav.MAV_CMD_NAV_LOITER_TURNS, 60.0, 15.0, params=(1.0, 0.0, 10.0, 0.0)),
        plan_item(6, mav.MAV_CMD_NAV_DELAY, params=(2.0, 0.0, 0.0, 0.0)),
        plan_item(7, mav.MAV_CMD_NAV_RETURN_TO_LAUNCH),
    ]
