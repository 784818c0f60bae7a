"""Both directions on one schedule: packets in, packets out when they are due. Sans-IO; time is given."""

from __future__ import annotations

import heapq
import ipaddress
import random
from typing import Any, Final

from pqlink.channel import Channel, Counts
from pqlink.settings import NOTHING, Side

#: packets on their way at once; beyond it the newest is dropped and counted, never the process
MAX_WAITING: Final = 200_000
DIRECTIONS: Final = ("up", "down")


class Router:
    """Sorts packets by source and destination: `up` is from drone to ground, `down` the other way.

    guest: one more source whose packets to either end take the same queues, and are counted apart as well.
    """

    def __init__(self, drone: str, gcs: str, seed: int = 0, guest: str | None = None) -> None:
        here, there = (ipaddress.IPv4Address(a).packed for a in (drone, gcs))
        self._directions = {here + there: "up", there + here: "down"}
        self._guest = b"" if guest is None else ipaddress.IPv4Address(guest).packed
        if guest is not None:
            self._directions |= {self._guest + there: "up", self._guest + here: "down"}
        #: (due, order of arrival, direction, packet): a plain tuple, because this is the hot path
        self._heap: list[tuple[int, int, str, bytes]] = []
        self._order = 0
        self.strangers = 0
        self.overflow = 0
        #: of the packets counted in each direction, those of the guest
        self.guests = _no_guests()
        self.channels = {name: Channel(random.Random()) for name in DIRECTIONS}
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """New generators from `seed`, counts at zero. Packets on their way stay on it."""
        self.strangers = self.overflow = 0
        self.guests = _no_guests()
        for name, channel in self.channels.items():
            channel.restart(random.Random(f"pqlink {seed} {name}"))

    def set(self, up: Side = NOTHING, down: Side = NOTHING) -> None:
        """Settings of both directions from the next packet on."""
        self.channels["up"].set(up)
        self.channels["down"].set(down)

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """What is in force now."""
        return {name: channel.side.as_dict() for name, channel in self.channels.items()}

    def offer(self, packet: bytes, now_ns: int) -> None:
        """One IPv4 packet; anything that is not between the two ends is dropped and counted."""
        direction = self._directions.get(packet[12:20]) if packet[:1] and packet[0] >> 4 == 4 else None
        if direction is None:
            self.strangers += 1
            return
        if packet[12:16] == self._guest:
            self.guests[direction]["offered"] += 1
        for due_ns in self.channels[direction].offer(len(packet), now_ns):
            if len(self._heap) >= MAX_WAITING:
                self.overflow += 1
                return
            self._order += 1
            heapq.heappush(self._heap, (due_ns, self._order, direction, packet))

    def due(self, now_ns: int) -> list[bytes]:
        """Packets whose time has come, in order of their times."""
        out = []
        while self._heap and self._heap[0][0] <= now_ns:
            due_ns, _, direction, packet = heapq.heappop(self._heap)
            self.channels[direction].released(due_ns, now_ns)
            if packet[12:16] == self._guest:
                self.guests[direction]["delivered"] += 1
            out.append(packet)
        return out

    @property
    def next_ns(self) -> int | None:
        """When the next packet is due; None while nothing waits."""
        return self._heap[0][0] if self._heap else None

    def counts(self) -> dict[str, Counts]:
        """What became of the packets, by direction."""
        return {name: channel.counts for name, channel in self.channels.items()}


def _no_guests() -> dict[str, dict[str, int]]:
    return {name: {"offered": 0, "delivered": 0} for name in DIRECTIONS}
