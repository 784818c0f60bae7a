"""What a ground station asks of the vehicle in a simulated session, without a frame: sizes, turns and times.

Nothing is lost on the way, so that nothing is sent twice; the vehicle answers a millisecond after it hears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pqbase.documents import Json
from pqsitl.steps import CUT, NOT_DUE, STATION, Due, Step, dues

MS: Final = 1_000_000
ANSWER_NS: Final = MS
#: between two parameters of a list
PACE_NS: Final = 5 * MS
PARAMETERS: Final = 371
COMMANDS: Final = {
    "command": "MAV_CMD_RUN_PREARM_CHECKS",
    "mode": "MAV_CMD_DO_SET_MODE",
    "auto": "MAV_CMD_MISSION_START",
}
#: MAVLink 2 frames, bytes
BYTES: Final = {
    "COMMAND_LONG": 44, "COMMAND_ACK": 22, "MISSION_COUNT": 17, "MISSION_REQUEST_INT": 16,
    "MISSION_ITEM_INT": 49, "MISSION_ACK": 15, "PARAM_REQUEST_LIST": 14, "PARAM_REQUEST_READ": 16,
    "PARAM_VALUE": 37,
}  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """One frame: `asks` from the ground, else from the vehicle; after_ns: how long its sender waits first."""

    kind: str
    asks: bool
    after_ns: int = 0

    @property
    def size_bytes(self) -> int:
        return BYTES[self.kind.split(" ")[0]]


def turns(step: Step) -> Iterator[Turn]:
    """The frames of one exchange in order, each sent when the one before it was heard."""
    if step.kind in COMMANDS:
        yield Turn(f"COMMAND_LONG {COMMANDS[step.kind]}", True)
        yield Turn("COMMAND_ACK", False, ANSWER_NS)
    elif step.kind == "mission_upload":
        yield Turn("MISSION_COUNT", True)
        for _ in range((step.waypoints or 0) + 1):
            yield Turn("MISSION_REQUEST_INT", False, ANSWER_NS)
            yield Turn("MISSION_ITEM_INT", True)
        yield Turn("MISSION_ACK", False, ANSWER_NS)
    elif step.count is not None:
        for _ in range(step.count):
            yield Turn("PARAM_REQUEST_READ", True)
            yield Turn("PARAM_VALUE", False, ANSWER_NS)
    else:
        yield Turn("PARAM_REQUEST_LIST", True)
        for _ in range(PARAMETERS):
            yield Turn("PARAM_VALUE", False, PACE_NS)


class Asked:
    """One exchange on its way through the session."""

    def __init__(self, due: Due, step: Step, begun_ns: int) -> None:
        self.due, self.step = due, step
        self.due_ns = begun_ns + due.at_ns
        self.sent_ns: int | None = None
        self.acknowledged_ns: int | None = None
        self.turns = list(turns(step))
        self.done = 0

    def row(self) -> Json:
        """As the ground's program tells it."""
        reason = None
        if self.acknowledged_ns is None:
            reason = NOT_DUE if self.sent_ns is None else CUT
        command = COMMANDS.get(self.step.kind)
        over = [turn.kind for turn in self.turns[: self.done]]
        items = sum(kind in ("MISSION_ITEM_INT", "PARAM_VALUE") for kind in over)
        return {
            "step": self.due.step,
            "number": self.due.number,
            "kind": self.step.kind,
            "command": command if self.sent_ns is not None else None,
            "due_ns": self.due_ns,
            "sent_ns": self.sent_ns,
            "acknowledged_ns": self.acknowledged_ns,
            "result": 0 if self.acknowledged_ns is not None else None,
            "retries_count": 0,
            "items_count": items,
            "reason": reason,
        }


class Workload:
    """All exchanges of one session, and what each end counts of them."""

    def __init__(self, steps: Sequence[Step], seed: int, begun_ns: int) -> None:
        self._seed, self._begun_ns = seed, begun_ns
        self.exchanges = [Asked(due, steps[due.step], begun_ns) for due in dues(steps, seed)]
        self._lanes: dict[str, list[Asked]] = {}
        self.sent: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.answered_sizes: Counter[int] = Counter()

    def begins(self, one: Asked) -> bool:
        """Take a place in its lane; False while another exchange is under way there."""
        lane = self._lanes.setdefault("mode" if one.step.kind == "auto" else one.step.kind, [])
        lane.append(one)
        return len(lane) == 1

    def ends(self, one: Asked) -> Asked | None:
        """Leave the lane; who goes next."""
        lane = self._lanes["mode" if one.step.kind == "auto" else one.step.kind]
        lane.remove(one)
        return lane[0] if lane else None

    def at_ground(self) -> Json:
        """Part `workload` of the ground's report."""
        rows = sorted((one.row() for one in self.exchanges), key=lambda row: (row["step"], row["number"]))
        return {
            "seed": self._seed,
            "begun_ns": self._begun_ns,
            "sent": dict(sorted(self.sent.items())),
            "heard": dict(sorted(self.heard.items())),
            "rows": rows,
        }

    def at_vehicle(self) -> Json:
        """Parts `uplink` and `beside` of the vehicle's report."""
        sizes = {str(size): count for size, count in sorted(self.answered_sizes.items())}
        kinds = dict(sorted(self.answered.items()))
        system, component = STATION
        frames = dict(sorted(self.received.items()))
        return {
            "uplink": [{"system": system, "component": component, "frames": frames}],
            "beside": {"count": sum(kinds.values()), "sizes": sizes, "kinds": kinds},
        }
