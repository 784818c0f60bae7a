"""Mission protocol of a vehicle: plans go up and down item by item (MAVLink mission protocol).

Three lists, one for each mission_type: the mission, the fence, the rally points. Item 0 of the mission is
home's place, as ArduPilot has it: it is stored and given back, never flown.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from pymavlink.dialects.v20 import ardupilotmega as mav

Item = mav.MAVLink_mission_item_int_message
AnyItem = Item | mav.MAVLink_mission_item_message
Messages = list[mav.MAVLink_message]
Request = mav.MAVLink_mission_request_int_message | mav.MAVLink_mission_request_message

REQUEST_RETRY_NS = 1_000_000_000
MAX_RETRIES = 5
MISSION, FENCE, RALLY = mav.MAV_MISSION_TYPE_MISSION, mav.MAV_MISSION_TYPE_FENCE, mav.MAV_MISSION_TYPE_RALLY
ALL_TYPES = mav.MAV_MISSION_TYPE_ALL
MAX_ITEMS = {MISSION: 724, FENCE: 200, RALLY: 50}
"""724 commands are what ArduPilot holds in 15 KiB of storage; the other two are ours."""
GUIDED_ITEM, GUIDED_ALTITUDE = 2, 3
"""`current` of an item that is not part of a mission: ArduPilot flies there at once."""

FLOWN = frozenset({
    mav.MAV_CMD_NAV_WAYPOINT, mav.MAV_CMD_NAV_SPLINE_WAYPOINT, mav.MAV_CMD_NAV_LOITER_UNLIM,
    mav.MAV_CMD_NAV_LOITER_TURNS, mav.MAV_CMD_NAV_LOITER_TIME, mav.MAV_CMD_NAV_RETURN_TO_LAUNCH,
    mav.MAV_CMD_NAV_LAND, mav.MAV_CMD_NAV_TAKEOFF, mav.MAV_CMD_NAV_DELAY,
})  # fmt: skip
DONE_AT_ONCE = frozenset({mav.MAV_CMD_DO_JUMP, mav.MAV_CMD_DO_CHANGE_SPEED})
PASSED_OVER = frozenset({
    mav.MAV_CMD_CONDITION_DELAY, mav.MAV_CMD_CONDITION_DISTANCE, mav.MAV_CMD_CONDITION_YAW,
    mav.MAV_CMD_DO_SET_HOME, mav.MAV_CMD_DO_SET_SERVO, mav.MAV_CMD_DO_SET_RELAY, mav.MAV_CMD_DO_LAND_START,
    mav.MAV_CMD_DO_SET_ROI, mav.MAV_CMD_DO_SET_ROI_LOCATION, mav.MAV_CMD_DO_SET_ROI_NONE,
    mav.MAV_CMD_DO_MOUNT_CONTROL, mav.MAV_CMD_DO_DIGICAM_CONTROL, mav.MAV_CMD_DO_SET_CAM_TRIGG_DIST,
    mav.MAV_CMD_DO_FENCE_ENABLE, mav.MAV_CMD_DO_GRIPPER,
})  # fmt: skip
"""Stored and given back; in flight there is no device that could do them."""
POLYGONS = frozenset(
    {mav.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_INCLUSION, mav.MAV_CMD_NAV_FENCE_POLYGON_VERTEX_EXCLUSION}
)
_COMMANDS = {
    MISSION: FLOWN | DONE_AT_ONCE | PASSED_OVER,
    FENCE: POLYGONS
    | {
        mav.MAV_CMD_NAV_FENCE_RETURN_POINT,
        mav.MAV_CMD_NAV_FENCE_CIRCLE_INCLUSION,
        mav.MAV_CMD_NAV_FENCE_CIRCLE_EXCLUSION,
    },
    RALLY: frozenset({mav.MAV_CMD_NAV_RALLY_POINT}),
}
ABSOLUTE = frozenset({mav.MAV_FRAME_GLOBAL, mav.MAV_FRAME_GLOBAL_INT})
RELATIVE = frozenset({
    mav.MAV_FRAME_GLOBAL_RELATIVE_ALT, mav.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT,
    mav.MAV_FRAME_GLOBAL_TERRAIN_ALT, mav.MAV_FRAME_GLOBAL_TERRAIN_ALT_INT,
})  # fmt: skip
"""Altitude above home, or above the ground: the lab's ground is flat, and that is the same."""
_FILE_HEAD, _FILE_ITEM = struct.Struct("<HHHHH"), struct.Struct("<ffffiifHHBBBBBB")
_FILE_MAGIC = 0x763D
_E7 = 1e7


@dataclass
class _Upload:
    """One transaction: items `start` … `end` - 1 of a list are being sent."""

    partner: tuple[int, int]
    mission_type: int
    start: int
    end: int
    asked_ns: int
    partial: bool = False
    got: list[Item] = field(default_factory=list)
    retries: int = 0

    @property
    def wanted(self) -> int:
        return self.start + len(self.got)


def judged(item: Item) -> int:
    """MAV_MISSION_RESULT of one MISSION_ITEM_INT by itself."""
    if item.command not in _COMMANDS[item.mission_type]:
        return mav.MAV_MISSION_UNSUPPORTED
    placed = item.command in FLOWN or item.mission_type != MISSION
    if placed and item.frame not in ABSOLUTE | RELATIVE and item.frame != mav.MAV_FRAME_MISSION:
        return mav.MAV_MISSION_UNSUPPORTED_FRAME
    if placed and abs(item.x) > 90 * _E7:
        return mav.MAV_MISSION_INVALID_PARAM5_X
    if placed and abs(item.y) > 180 * _E7:
        return mav.MAV_MISSION_INVALID_PARAM6_Y
    if placed and not math.isfinite(item.z):
        return mav.MAV_MISSION_INVALID_PARAM7
    timed = item.command in (mav.MAV_CMD_NAV_LOITER_TIME, mav.MAV_CMD_NAV_LOITER_TURNS, mav.MAV_CMD_DO_JUMP)
    if timed and not math.isfinite(item.param1):
        return mav.MAV_MISSION_INVALID_PARAM1
    return mav.MAV_MISSION_ACCEPTED


def _fence_judged(items: list[Item]) -> int:
    """Corners of a polygon stand together, and each says how many they are."""
    place = 0
    while place < len(items):
        item = items[place]
        if item.command not in POLYGONS:
            place += 1
            continue
        corners = items[place : place + int(item.param1)] if 3 <= item.param1 <= len(items) else []
        alike = {(one.command, one.param1) for one in corners}
        if len(corners) < 3 or len(corners) != int(item.param1) or len(alike) != 1:
            return mav.MAV_MISSION_INVALID_PARAM1
        place += len(corners)
    return mav.MAV_MISSION_ACCEPTED


def as_int(item: AnyItem) -> Item | None:
    """MISSION_ITEM (degrees) as MISSION_ITEM_INT, which stays as it is; None where its place is no number."""
    if isinstance(item, Item):
        return item
    scale = _E7 if item.frame in ABSOLUTE | RELATIVE else 1.0
    if not all(math.isfinite(v) and abs(v * scale) < 2**31 for v in (item.x, item.y)):
        return None
    return mav.MAVLink_mission_item_int_message(
        item.target_system,
        item.target_component,
        item.seq,
        item.frame,
        item.command,
        item.current,
        item.autocontinue,
        item.param1,
        item.param2,
        item.param3,
        item.param4,
        round(item.x * scale),
        round(item.y * scale),
        item.z,
        item.mission_type,
    )


class MissionStore:
    """Holds the accepted lists; an upload replaces one only when it is complete and sound."""

    def __init__(self, on_change: Callable[[int], None] = lambda mission_type: None) -> None:
        self._lists: dict[int, list[Item]] = {MISSION: [], FENCE: [], RALLY: []}
        self._upload: _Upload | None = None
        self._on_change = on_change

    @property
    def items(self) -> list[Item]:
        """The mission, item 0 included."""
        return self._lists[MISSION]

    @property
    def uploading(self) -> bool:
        return self._upload is not None

    def count(self, mission_type: int) -> int:
        """Items of a list; 0 for a type that there is not."""
        return len(self._lists.get(mission_type, ()))

    def handle(self, message: mav.MAVLink_message, now_ns: int) -> Messages | None:
        """Answers to one message; None when it is not of this protocol."""
        partner = (message.get_srcSystem(), message.get_srcComponent())
        match message:
            case mav.MAVLink_mission_count_message():
                return self._begin(message.mission_type, partner, 0, message.count, now_ns)
            case mav.MAVLink_mission_write_partial_list_message():
                return self._begin_partial(message, partner, now_ns)
            case mav.MAVLink_mission_item_int_message() | mav.MAVLink_mission_item_message():
                return self._item(message, partner, now_ns)
            case mav.MAVLink_mission_request_list_message() if message.mission_type in self._lists:
                count = self.count(message.mission_type)
                return [mav.MAVLink_mission_count_message(*partner, count, message.mission_type)]
            case (
                mav.MAVLink_mission_request_list_message()
                | mav.MAVLink_mission_request_partial_list_message()
            ):
                return [self._ack(partner, mav.MAV_MISSION_UNSUPPORTED, message.mission_type)]
            case mav.MAVLink_mission_request_int_message() | mav.MAVLink_mission_request_message():
                return self._send_item(message, partner)
            case mav.MAVLink_mission_clear_all_message():
                return self._clear(message, partner)
            case mav.MAVLink_mission_ack_message():
                return self._acknowledged(message, partner)
        return None

    def poll(self, now_ns: int) -> Messages:
        """Asks again for an item that has not come; gives up after MAX_RETRIES."""
        upload = self._upload
        if upload is None or now_ns - upload.asked_ns < REQUEST_RETRY_NS:
            return []
        upload.retries += 1
        if upload.retries > MAX_RETRIES:
            return [self._end(upload, mav.MAV_MISSION_OPERATION_CANCELLED)]
        return [self._request(upload, now_ns)]

    def packed(self, mission_type: int) -> bytes:
        """A list as ArduPilot's file @MISSION/mission.dat (fence.dat, rally.dat).

        Head: magic, type, options, first item, count (little-endian u16); then MISSION_ITEM_INT payloads
        (AP_Filesystem_Mission of ArduPilot's public source).
        """
        items = self._lists[mission_type]
        parts = [_FILE_HEAD.pack(_FILE_MAGIC, mission_type, 0, 0, len(items))]
        for item in items:
            parts.append(
                _FILE_ITEM.pack(
                    item.param1,
                    item.param2,
                    item.param3,
                    item.param4,
                    item.x,
                    item.y,
                    item.z,
                    item.seq,
                    item.command,
                    0,
                    0,
                    item.frame,
                    item.current,
                    item.autocontinue,
                    mission_type,
                )
            )
        return b"".join(parts)

    @staticmethod
    def _ack(partner: tuple[int, int], result: int, mission_type: int) -> mav.MAVLink_message:
        return mav.MAVLink_mission_ack_message(*partner, result, mission_type)

    def _end(self, upload: _Upload, result: int) -> mav.MAVLink_message:
        self._upload = None
        return self._ack(upload.partner, result, upload.mission_type)

    @staticmethod
    def _request(upload: _Upload, now_ns: int) -> mav.MAVLink_message:
        upload.asked_ns = now_ns
        return mav.MAVLink_mission_request_int_message(*upload.partner, upload.wanted, upload.mission_type)

    def _begin(
        self,
        mission_type: int,
        partner: tuple[int, int],
        start: int,
        end: int,
        now_ns: int,
        *,
        partial: bool = False,
    ) -> Messages:
        if mission_type not in self._lists:
            return [self._ack(partner, mav.MAV_MISSION_UNSUPPORTED, mission_type)]
        if self._upload is not None and partner != self._upload.partner:
            return [self._ack(partner, mav.MAV_MISSION_DENIED, mission_type)]
        if end > MAX_ITEMS[mission_type]:
            return [self._ack(partner, mav.MAV_MISSION_NO_SPACE, mission_type)]
        self._upload = _Upload(partner, mission_type, start, end, now_ns, partial)
        if start == end:
            return [self._finish(self._upload)]
        return [self._request(self._upload, now_ns)]

    def _begin_partial(
        self, message: mav.MAVLink_mission_write_partial_list_message, partner: tuple[int, int], now_ns: int
    ) -> Messages:
        """Items that are there already are sent anew; `end_index` is the last of them."""
        start, last = message.start_index, message.end_index
        if not 0 <= start <= last < self.count(message.mission_type):
            return [self._ack(partner, mav.MAV_MISSION_INVALID_SEQUENCE, message.mission_type)]
        return self._begin(message.mission_type, partner, start, last + 1, now_ns, partial=True)

    def _item(self, message: AnyItem, partner: tuple[int, int], now_ns: int) -> Messages:
        upload = self._upload
        if upload is None or partner != upload.partner:
            return [self._ack(partner, mav.MAV_MISSION_ERROR, message.mission_type)]
        if message.mission_type != upload.mission_type:
            return [self._end(upload, mav.MAV_MISSION_INVALID)]
        if message.seq >= upload.end or message.seq < upload.start:
            return [self._end(upload, mav.MAV_MISSION_INVALID_SEQUENCE)]
        if message.seq != upload.wanted:
            # A repeated item was already answered; one that runs ahead is asked for in its turn.
            return [] if message.seq < upload.wanted else [self._request(upload, now_ns)]
        item = as_int(message)
        if item is None:
            return [self._end(upload, mav.MAV_MISSION_INVALID_PARAM5_X)]
        if (result := judged(item)) != mav.MAV_MISSION_ACCEPTED:
            return [self._end(upload, result)]
        upload.got.append(item)
        upload.retries = 0
        if upload.wanted < upload.end:
            return [self._request(upload, now_ns)]
        return [self._finish(upload)]

    def _finish(self, upload: _Upload) -> mav.MAVLink_message:
        """Take the list over when it is sound as a whole."""
        old = self._lists[upload.mission_type]
        items = [*old[: upload.start], *upload.got, *(old[upload.end :] if upload.partial else [])]
        result = mav.MAV_MISSION_ACCEPTED
        if upload.mission_type == FENCE:
            result = _fence_judged(items)
        if result == mav.MAV_MISSION_ACCEPTED:
            self._lists[upload.mission_type] = items
            self._on_change(upload.mission_type)
        return self._end(upload, result)

    def _clear(self, message: mav.MAVLink_mission_clear_all_message, partner: tuple[int, int]) -> Messages:
        if message.mission_type not in (*self._lists, ALL_TYPES):
            return [self._ack(partner, mav.MAV_MISSION_UNSUPPORTED, message.mission_type)]
        types = list(self._lists) if message.mission_type == ALL_TYPES else [message.mission_type]
        for mission_type in types:
            self._lists[mission_type] = []
            self._on_change(mission_type)
        return [self._ack(partner, mav.MAV_MISSION_ACCEPTED, message.mission_type)]

    def _acknowledged(self, message: mav.MAVLink_mission_ack_message, partner: tuple[int, int]) -> Messages:
        """A ground station that ends its own upload says so with an error; the old list stays."""
        upload = self._upload
        cancelled = message.type != mav.MAV_MISSION_ACCEPTED
        if upload is not None and upload.partner == partner and cancelled:
            self._upload = None
        return []

    def _send_item(self, message: Request, partner: tuple[int, int]) -> Messages:
        mission_type = message.mission_type
        if mission_type not in self._lists:
            return [self._ack(partner, mav.MAV_MISSION_UNSUPPORTED, mission_type)]
        if message.seq >= self.count(mission_type):
            return [self._ack(partner, mav.MAV_MISSION_INVALID_SEQUENCE, mission_type)]
        item = self._lists[mission_type][message.seq]
        plain = (item.seq, item.frame, item.command, item.current, item.autocontinue)
        numbers = (item.param1, item.param2, item.param3, item.param4)
        if isinstance(message, mav.MAVLink_mission_request_int_message):
            x, y, z = item.x, item.y, item.z
            return [mav.MAVLink_mission_item_int_message(*partner, *plain, *numbers, x, y, z, mission_type)]
        scale = _E7 if item.frame in ABSOLUTE | RELATIVE else 1.0
        degrees = (item.x / scale, item.y / scale, item.z)
        return [mav.MAVLink_mission_item_message(*partner, *plain, *numbers, *degrees, mission_type)]
