"""Ground stations that spoke to the vehicle within a window and are none of the lab's.

The vehicle accounts for what came up (`pqsitl.visitors`); here is who of the senders is the lab itself. A
bundle of an earlier version has no such account, and then nothing is known of visitors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json, counts_of, exact_or_none, part_of, rows_of, whole_of

#: MAVProxy's own sender, which speaks at both ends
MAVPROXY: Final = (255, 230)
#: the uplink probe (`pqsitl.uplink`)
PROBE: Final = (255, 190)
_PROBE_KINDS: Final = ("HEARTBEAT", "TIMESYNC")
#: messages that ask the vehicle to do, to be or to send something else than before
_ORDERS: Final = frozenset(
    {
        "SET_MODE", "PARAM_SET", "REQUEST_DATA_STREAM", "MESSAGE_INTERVAL",
        "MISSION_COUNT", "MISSION_ITEM", "MISSION_ITEM_INT", "MISSION_CLEAR_ALL", "MISSION_SET_CURRENT",
        "MISSION_WRITE_PARTIAL_LIST", "SET_POSITION_TARGET_LOCAL_NED", "SET_POSITION_TARGET_GLOBAL_INT",
        "SET_ATTITUDE_TARGET", "SET_ACTUATOR_CONTROL_TARGET", "RC_CHANNELS_OVERRIDE", "MANUAL_CONTROL",
        "SET_HOME_POSITION", "SET_GPS_GLOBAL_ORIGIN", "FENCE_POINT", "RALLY_POINT", "SETUP_SIGNING",
    }
)  # fmt: skip
_COMMANDS: Final = ("COMMAND_LONG ", "COMMAND_INT ")
#: commands that only ask; every other one is an order
_QUESTIONS: Final = ("MAV_CMD_REQUEST_", "MAV_CMD_GET_")


@dataclass(frozen=True)
class Visitor:
    """One sender that is none of the lab's. frames: kind → count; orders: those that ask for a change."""

    system: int | None
    component: int | None
    frames: dict[str, int]

    @property
    def orders(self) -> dict[str, int]:
        return {kind: count for kind, count in self.frames.items() if is_order(kind)}

    def as_dict(self) -> Json:
        """For the cell's events."""
        return {
            "system": self.system,
            "component": self.component,
            "frames": self.frames,
            "orders": self.orders,
        }

    def orders_told(self) -> str:
        """One sentence of what it ordered; empty where it ordered nothing."""
        told = ", ".join(f"{kind} ({count})" for kind, count in self.orders.items())
        who = (
            "visitors"
            if self.system is None
            else f"a visitor (system {self.system}, component {self.component})"
        )
        return f"{who} gave the vehicle orders: {told}" if told else ""


def is_order(kind: str) -> bool:
    """Does a frame of this kind ask the vehicle for a change?"""
    for prefix in _COMMANDS:
        if kind.startswith(prefix):
            return not kind.removeprefix(prefix).startswith(_QUESTIONS)
    return kind in _ORDERS


def visitors(window: Mapping[str, object]) -> list[Visitor]:
    """Of one traffic window (`drone` and `gcs` as in traffic.json)."""
    drone, gcs = (part_of(window, role, {}) for role in ("drone", "gcs"))
    ground = part_of(gcs, "source_report", {})
    account = rows_of(part_of(drone, "source_report", {}), "uplink", [])
    told = part_of(ground, "sent", {})
    found = []
    for row in account:
        system, component = exact_or_none(row, "system"), exact_or_none(row, "component")
        frames = counts_of(row, "frames", {})
        own: tuple[str, ...] = ()
        if (system, component) == MAVPROXY:
            own = ("HEARTBEAT",)
        elif (system, component) == PROBE and gcs.get("source", "uplink") == "uplink":
            # a ground station may bear the probe's own numbers: more than the probe sent is somebody else's
            probed = sum(frames.get(kind, 0) for kind in _PROBE_KINDS)
            own = _PROBE_KINDS if told.get("count") is None or probed <= whole_of(told, "count") else ()
            asked = counts_of(part_of(ground, "workload", {}), "sent", {})
            own += tuple(kind for kind, count in frames.items() if count <= asked.get(kind, 0))
        if frames := {kind: count for kind, count in frames.items() if kind not in own}:
            found.append(Visitor(system, component, frames))
    return found
