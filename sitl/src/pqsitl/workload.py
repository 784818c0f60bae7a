"""The station's half of a session's workload: missions, modes, parameters, commands over MAVLink; sans-IO.

An exchange has four moments on the ground's monotonic clock: due, sent, acknowledged, and the limit after
which it counts as unanswered. Exchanges of one lane go one after another: COMMAND_ACK names the command and
not which sending of it, so that of two under way neither could be told. One that has to wait keeps its due
time beside its sending.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from pymavlink.dialects.v20 import ardupilotmega as mav

from pqsitl.flight import HOME_ALT_M, HOME_LAT_DEG, HOME_LON_DEG, degrees_of
from pqsitl.mission import Item, Request
from pqsitl.steps import CUT, MODES, NOT_DUE, NS, STATION, Due, Step, dues, unanswered
from pqsitl.visitors import kind_of

#: MAVLink's own time before a message is sent again
RETRY_NS: Final = 1_500_000_000
#: after this long no acknowledgement of an earlier sending is expected any more
LATE_NS: Final = 5 * NS
#: parameters asked for at once when a list has holes
MOST_MISSING: Final = 10
#: commands that change nothing. The first is taken while no late answer to it can be under way
QUESTIONS: Final = (
    (mav.MAV_CMD_RUN_PREARM_CHECKS, 0.0),
    (mav.MAV_CMD_GET_HOME_POSITION, 0.0),
    (mav.MAV_CMD_GET_MESSAGE_INTERVAL, 1.0),
    (mav.MAV_CMD_REQUEST_MESSAGE, 1.0),
)
VEHICLE: Final = (1, 1)
_HEARD: Final = frozenset(
    {
        mav.MAVLINK_MSG_ID_MISSION_REQUEST,
        mav.MAVLINK_MSG_ID_MISSION_REQUEST_INT,
        mav.MAVLINK_MSG_ID_MISSION_ACK,
        mav.MAVLINK_MSG_ID_PARAM_VALUE,
        mav.MAVLINK_MSG_ID_COMMAND_ACK,
    }
)
#: index of a parameter that the vehicle tells of its own accord
_ANNOUNCED: Final = 65_535
Messages = list[mav.MAVLink_message]
_LANES: Final = {"mode": "mode", "auto": "mode"}


def mission_items(count: int, seed: int) -> list[Item]:
    """`count` waypoints about home behind item 0, home's own place."""
    rng = random.Random(f"mission/{seed}")
    items = [_item(0, HOME_LAT_DEG, HOME_LON_DEG, HOME_ALT_M, mav.MAV_FRAME_GLOBAL)]
    for seq in range(1, count + 1):
        lat_deg, lon_deg = degrees_of(rng.uniform(-200, 200), rng.uniform(-200, 200))
        frame = mav.MAV_FRAME_GLOBAL_RELATIVE_ALT
        items.append(_item(seq, lat_deg, lon_deg, round(rng.uniform(10, 30), 1), frame))
    return items


def _item(seq: int, lat_deg: float, lon_deg: float, alt_m: float, frame: int) -> Item:
    return mav.MAVLink_mission_item_int_message(
        *VEHICLE,
        seq,
        frame,
        mav.MAV_CMD_NAV_WAYPOINT,
        0,
        1,
        0,
        0,
        0,
        0,
        round(lat_deg * 1e7),
        round(lon_deg * 1e7),
        alt_m,
    )


@dataclass
class Exchange:
    """One exchange under way or over; times in ns of the ground's monotonic clock."""

    due: Due
    step: Step
    due_ns: int
    sent_ns: int | None = None
    acknowledged_ns: int | None = None
    result: int | None = None
    """What the vehicle answered: MAV_RESULT, MAV_MISSION_RESULT; of a download 0 when it is whole."""
    retries_count: int = 0
    items_count: int = 0
    """Items or parameters that went over so far."""
    command: int | None = None
    reason: str | None = None
    last_ns: int = 0
    wanted: set[int] = field(default_factory=set)

    def row(self) -> dict[str, object]:
        """As it stands in the source's report."""
        command = mav.enums["MAV_CMD"][self.command].name if self.command is not None else None
        return {
            "step": self.due.step,
            "number": self.due.number,
            "kind": self.step.kind,
            "command": command,
            "due_ns": self.due_ns,
            "sent_ns": self.sent_ns,
            "acknowledged_ns": self.acknowledged_ns,
            "result": self.result,
            "retries_count": self.retries_count,
            "items_count": self.items_count,
            "reason": self.reason,
        }


class WorkloadClient:
    """The station's half: hand it the clock and what came down, send what it gives back."""

    def __init__(self, steps: Sequence[Step], seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._plan = dues(steps, seed)
        self._mav = mav.MAVLink(None)
        self._mav.robust_parsing = True
        self.begun_ns: int | None = None
        self._waiting: list[Exchange] = []
        self._open: dict[str, Exchange] = {}
        self._done: list[Exchange] = []
        self._items: list[Item] = []
        self._params_total: int | None = None
        self._sent_times: dict[int, tuple[int, int]] = {}
        """Command → (sendings that no acknowledgement came for, ns until which one may still come)."""
        self.sent: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()

    def begin(self, now_ns: int) -> None:
        """The session begins: the vehicle was heard. Later calls change nothing."""
        if self.begun_ns is None:
            self.begun_ns = now_ns
            self._waiting = [Exchange(due, self._steps[due.step], now_ns + due.at_ns) for due in self._plan]

    @property
    def over(self) -> bool:
        """Is every exchange of the plan over?"""
        return self.begun_ns is not None and not self._waiting and not self._open

    @property
    def next_ns(self) -> int | None:
        """When `poll` has something to do; None while only the vehicle can go on."""
        times = [self._waiting[0].due_ns] if self._waiting else []
        for one in self._open.values():
            times += [one.last_ns + RETRY_NS, self._limit_ns(one)]
        return min(times, default=None)

    def poll(self, now_ns: int) -> Messages:
        """Messages to send now."""
        messages: Messages = []
        for one in list(self._open.values()):
            if now_ns >= self._limit_ns(one):
                self._end(one, reason=unanswered(one.step.limit_s))
            elif now_ns - one.last_ns >= RETRY_NS:
                one.retries_count += 1
                messages += self._ask(one, now_ns)
        for one in list(takewhile(lambda one: one.due_ns <= now_ns, self._waiting)):
            lane = _LANES.get(one.step.kind, one.step.kind)
            if lane in self._open or not self._choose(one, now_ns):
                continue
            self._waiting.remove(one)
            self._open[lane] = one
            one.sent_ns = now_ns
            messages += self._ask(one, now_ns)
        for message in messages:
            self.sent[kind_of(message)] += 1
        return messages

    def receive(self, datagram: bytes, now_ns: int) -> Messages:
        """Take one datagram from the vehicle; messages to send at once."""
        # Telemetry at full rate passes here: only answers are worth decoding.
        if (
            len(datagram) < 12
            or datagram[0] != 0xFD
            or int.from_bytes(datagram[7:10], "little") not in _HEARD
        ):
            return []
        messages: Messages = []
        for message in self._mav.parse_buffer(datagram) or []:
            addressed = (
                getattr(message, "target_system", STATION[0]),
                getattr(message, "target_component", STATION[1]),
            )
            sender = message.get_srcSystem()
            if message.get_msgId() not in _HEARD or (sender, addressed) != (VEHICLE[0], STATION):
                continue
            if isinstance(message, mav.MAVLink_param_value_message) and message.param_index == _ANNOUNCED:
                continue
            self.heard[message.get_type()] += 1
            messages += self._answered(message, now_ns)
        for message in messages:
            self.sent[kind_of(message)] += 1
        return messages

    def report(self) -> dict[str, object]:
        """{seed, begun_ns, sent, heard, rows}; what is not over yet was cut off by the session."""
        left = self._waiting
        if self.begun_ns is None:
            left = [Exchange(due, self._steps[due.step], due.at_ns) for due in self._plan]
        rows = [one.row() for one in self._done]
        rows += [{**one.row(), "reason": CUT} for one in self._open.values()]
        rows += [{**one.row(), "reason": NOT_DUE} for one in left]
        rows.sort(key=lambda row: (row["step"], row["number"]))
        sent, heard = dict(sorted(self.sent.items())), dict(sorted(self.heard.items()))
        return {"seed": self._seed, "begun_ns": self.begun_ns, "sent": sent, "heard": heard, "rows": rows}

    # ------------------------------------------------------------------ asking

    @staticmethod
    def _limit_ns(one: Exchange) -> int:
        assert one.sent_ns is not None
        return one.sent_ns + round(one.step.limit_s * NS)

    def _choose(self, one: Exchange, now_ns: int) -> bool:
        """Take a command to which no late acknowledgement can come any more; False while none is."""
        if one.step.kind in ("mission_upload", "param_download"):
            return True
        if one.step.kind == "command":
            choice = [command for command, _ in QUESTIONS]
        else:
            choice = [mav.MAV_CMD_MISSION_START if one.step.kind == "auto" else mav.MAV_CMD_DO_SET_MODE]
        for command in choice:
            surplus, until_ns = self._sent_times.get(command, (0, 0))
            if surplus == 0 or now_ns >= until_ns:
                self._sent_times[command] = (0, 0)
                one.command = command
                return True
        return False

    def _ask(self, one: Exchange, now_ns: int) -> Messages:
        one.last_ns = now_ns
        if one.step.kind == "mission_upload":
            return [self._upload(one)]
        if one.step.kind == "param_download":
            return self._params(one)
        assert one.command is not None
        surplus, _ = self._sent_times.get(one.command, (0, 0))
        self._sent_times[one.command] = (surplus + 1, now_ns + LATE_NS)
        return [self._command(one)]

    def _command(self, one: Exchange) -> mav.MAVLink_message:
        params = [0.0] * 7
        assert one.command is not None
        if one.step.mode is not None:
            params[:2] = float(mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED), float(MODES[one.step.mode])
        elif one.step.kind == "command":
            params[0] = dict(QUESTIONS)[one.command]
        return mav.MAVLink_command_long_message(*VEHICLE, one.command, min(one.retries_count, 255), *params)

    def _upload(self, one: Exchange) -> mav.MAVLink_message:
        """The list's length; once it has begun, the item that was asked for last."""
        if not self._items or one.items_count == 0:
            self._items = mission_items(one.step.waypoints or 0, self._seed + one.due.step)
            return mav.MAVLink_mission_count_message(*VEHICLE, len(self._items), 0)
        return self._items[one.items_count - 1]

    def _params(self, one: Exchange) -> Messages:
        """The whole list, or those that are missing, or the next one of a number."""
        if one.step.count is None and self._params_total is None:
            return [mav.MAVLink_param_request_list_message(*VEHICLE)]
        if self._params_total is None and not one.wanted:
            one.wanted = set(range(one.step.count or 0))
        at_once = 1 if one.step.count is not None else MOST_MISSING
        return [
            mav.MAVLink_param_request_read_message(*VEHICLE, b"", index)
            for index in sorted(one.wanted)[:at_once]
        ]

    # ------------------------------------------------------------------ answers

    def _answered(self, message: mav.MAVLink_message, now_ns: int) -> Messages:
        match message:
            case mav.MAVLink_command_ack_message():
                return self._on_command_ack(message, now_ns)
            case mav.MAVLink_mission_request_message() | mav.MAVLink_mission_request_int_message():
                return self._on_request(message, now_ns)
            case mav.MAVLink_mission_ack_message():
                return self._on_ack(message, now_ns)
            case mav.MAVLink_param_value_message():
                return self._on_param(message, now_ns)
        return []

    def _on_command_ack(self, message: mav.MAVLink_command_ack_message, now_ns: int) -> Messages:
        surplus, until_ns = self._sent_times.get(message.command, (0, 0))
        self._sent_times[message.command] = (max(0, surplus - 1), until_ns)
        for one in list(self._open.values()):
            if one.command == message.command and message.result != mav.MAV_RESULT_IN_PROGRESS:
                self._end(one, now_ns, message.result)
        return []

    def _on_request(self, message: Request, now_ns: int) -> Messages:
        one = self._open.get("mission_upload")
        if one is None or not 0 <= message.seq < len(self._items):
            return []
        one.last_ns = now_ns
        if message.seq + 1 <= one.items_count:
            one.retries_count += 1
        one.items_count = max(one.items_count, message.seq + 1)
        return [self._items[message.seq]]

    def _on_ack(self, message: mav.MAVLink_mission_ack_message, now_ns: int) -> Messages:
        if (one := self._open.get("mission_upload")) is not None:
            self._items = []
            self._end(one, now_ns, message.type)
        return []

    def _on_param(self, message: mav.MAVLink_param_value_message, now_ns: int) -> Messages:
        one = self._open.get("param_download")
        if one is None:
            return []
        if one.step.count is None and self._params_total is None:
            self._params_total = message.param_count
            one.wanted = set(range(self._params_total))
        if message.param_index not in one.wanted:
            return []
        one.wanted.discard(message.param_index)
        one.items_count += 1
        one.last_ns = now_ns
        if not one.wanted:
            self._params_total = None
            self._end(one, now_ns, 0)
            return []
        return self._params(one) if one.step.count is not None else []

    def _end(
        self, one: Exchange, now_ns: int | None = None, result: int | None = None, reason: str | None = None
    ) -> None:
        one.acknowledged_ns, one.result, one.reason = now_ns, result, reason
        if one.step.kind == "param_download":
            self._params_total = None
        self._open = {lane: other for lane, other in self._open.items() if other is not one}
        self._done.append(one)
