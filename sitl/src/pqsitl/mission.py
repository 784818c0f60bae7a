"""Mission protocol of a vehicle: upload and download with MISSION_ITEM_INT (MAVLink mission protocol)."""

from __future__ import annotations

from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

REQUEST_RETRY_NS = 1_000_000_000
MAX_RETRIES = 5
MAX_ITEMS = 724


class MissionStore:
    """Holds the accepted mission; an upload replaces it only when it is complete."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._pending: list[Any] = []
        self._expected = 0
        self._partner = (0, 0)
        self._asked_ns = 0
        self._retries = 0

    @property
    def uploading(self) -> bool:
        return self._expected > 0

    def handle(self, message: Any, now_ns: int) -> list[Any] | None:
        """Answers to one message; None when it is not of this protocol."""
        kind = message.get_type()
        partner = (message.get_srcSystem(), message.get_srcComponent())
        if kind == "MISSION_COUNT":
            return self._begin(message, partner, now_ns)
        if kind == "MISSION_ITEM_INT":
            return self._item(message, partner, now_ns)
        if kind == "MISSION_REQUEST_LIST":
            count = len(self.items) if message.mission_type == 0 else 0
            return [mav.MAVLink_mission_count_message(*partner, count, message.mission_type)]
        if kind in ("MISSION_REQUEST_INT", "MISSION_REQUEST"):
            return self._send_item(message, partner)
        if kind == "MISSION_CLEAR_ALL":
            if message.mission_type in (0, 255):
                self.items = []
            return [self._ack(partner, mav.MAV_MISSION_ACCEPTED, message.mission_type)]
        return [] if kind == "MISSION_ACK" else None

    def poll(self, now_ns: int) -> list[Any]:
        """Asks again for an item that has not come; gives up after MAX_RETRIES."""
        if not self.uploading or now_ns - self._asked_ns < REQUEST_RETRY_NS:
            return []
        self._retries += 1
        if self._retries > MAX_RETRIES:
            self._expected = 0
            return [self._ack(self._partner, mav.MAV_MISSION_OPERATION_CANCELLED, 0)]
        return [self._request(now_ns)]

    @staticmethod
    def _ack(partner: tuple[int, int], result: int, mission_type: int) -> Any:
        return mav.MAVLink_mission_ack_message(*partner, result, mission_type)

    def _request(self, now_ns: int) -> Any:
        self._asked_ns = now_ns
        return mav.MAVLink_mission_request_int_message(*self._partner, len(self._pending), 0)

    def _begin(self, message: Any, partner: tuple[int, int], now_ns: int) -> list[Any]:
        if message.mission_type != 0:
            return [self._ack(partner, mav.MAV_MISSION_UNSUPPORTED, message.mission_type)]
        if self.uploading and partner != self._partner:
            return [self._ack(partner, mav.MAV_MISSION_DENIED, 0)]
        if message.count > MAX_ITEMS:
            return [self._ack(partner, mav.MAV_MISSION_NO_SPACE, 0)]
        self._partner, self._pending, self._expected, self._retries = partner, [], message.count, 0
        if message.count == 0:
            self.items = []
            return [self._ack(partner, mav.MAV_MISSION_ACCEPTED, 0)]
        return [self._request(now_ns)]

    def _item(self, message: Any, partner: tuple[int, int], now_ns: int) -> list[Any]:
        if not self.uploading or partner != self._partner:
            return [self._ack(partner, mav.MAV_MISSION_ERROR, message.mission_type)]
        if message.seq != len(self._pending):
            # A repeated item was already answered; anything else is asked for again.
            return [] if message.seq < len(self._pending) else [self._request(now_ns)]
        self._pending.append(message)
        self._retries = 0
        if len(self._pending) < self._expected:
            return [self._request(now_ns)]
        self.items, self._pending, self._expected = self._pending, [], 0
        return [self._ack(partner, mav.MAV_MISSION_ACCEPTED, 0)]

    def _send_item(self, message: Any, partner: tuple[int, int]) -> list[Any]:
        if message.mission_type != 0 or message.seq >= len(self.items):
            return [self._ack(partner, mav.MAV_MISSION_INVALID_SEQUENCE, message.mission_type)]
        item = self.items[message.seq]
        return [
            mav.MAVLink_mission_item_int_message(
                *partner, item.seq, item.frame, item.command, item.current, item.autocontinue,
                item.param1, item.param2, item.param3, item.param4, item.x, item.y, item.z, 0,
            )
        ]  # fmt: skip
