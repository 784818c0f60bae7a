"""Both directions on one schedule: packets in, packets out when they are due. Sans-IO; time is given."""

from __future__ import annotations

import heapq
import ipaddress
import random
from array import array
from collections.abc import Iterator
from typing import Final

from pqlink.channel import Channel, Counts
from pqlink.settings import NOTHING, Side
from pqlink.trace import Trace

#: packets on their way at once; beyond it the newest is dropped and counted, never the process
MAX_WAITING: Final = 200_000
DIRECTIONS: Final = ("up", "down")
#: rows kept of a hold with a trace, 32 bytes each; what comes behind them is counted
MAX_LOGGED: Final = 500_000
#: traces kept for the next hold: both directions of two conditions
MAX_TRACES: Final = 4
_LOST: Final = -1

#: direction, ns since the hold began, bytes, ns until it left (None: lost)
LogRow = tuple[str, int, int, int | None]


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
        #: SHA-256 → trace that a direction may be set to
        self.traces: dict[str, Trace] = {}
        self._log = array("q")
        self._keeps_log = False
        self._begun_ns = 0
        self.unlogged = 0
        self.restart(seed)

    def restart(self, seed: int, now_ns: int = 0) -> None:
        """New generators from `seed`, counts at zero, traces from `now_ns` on. Packets on their way stay."""
        self.strangers = self.overflow = 0
        self.guests = _no_guests()
        self._log = array("q")
        self._begun_ns = now_ns
        self.unlogged = 0
        for name, channel in self.channels.items():
            channel.restart(generator(seed, name), now_ns)

    def keep(self, trace: Trace) -> None:
        """A trace for the holds to come; the one kept longest makes room."""
        self.traces.pop(trace.sha256, None)
        while len(self.traces) >= MAX_TRACES:
            del self.traces[next(iter(self.traces))]
        self.traces[trace.sha256] = trace

    def set(self, up: Side = NOTHING, down: Side = NOTHING) -> None:
        """Settings of both directions from the next packet on. KeyError for a trace that is not kept."""
        for name, side in (("up", up), ("down", down)):
            self.channels[name].set(side, None if side.trace is None else self.traces[side.trace.sha256])
        self._keeps_log = up.trace is not None or down.trace is not None

    @property
    def logged(self) -> int:
        """Rows in the log: one a packet that came while either direction had a trace."""
        return len(self._log) // 4

    def log_rows(self, first: int, count: int) -> Iterator[LogRow]:
        """Rows of the log in the order in which the packets came."""
        for row in range(first, min(first + count, self.logged)):
            direction, since_ns, size_bytes, wait_ns = self._log[4 * row : 4 * row + 4]
            yield DIRECTIONS[direction], since_ns, size_bytes, None if wait_ns == _LOST else wait_ns

    @property
    def settings(self) -> dict[str, dict[str, object]]:
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
        times = self.channels[direction].offer(len(packet), now_ns)
        if self._keeps_log:
            self._note(direction, len(packet), now_ns, times)
        for due_ns in times:
            if len(self._heap) >= MAX_WAITING:
                self.overflow += 1
                return
            self._order += 1
            heapq.heappush(self._heap, (due_ns, self._order, direction, packet))

    def _note(self, direction: str, size_bytes: int, now_ns: int, times: tuple[int, ...]) -> None:
        if self.logged >= MAX_LOGGED:
            self.unlogged += 1
            return
        wait_ns = times[0] - now_ns if times else _LOST
        self._log.extend((DIRECTIONS.index(direction), now_ns - self._begun_ns, size_bytes, wait_ns))

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


def generator(seed: int, direction: str) -> random.Random:
    """The generator of one direction in a hold with this seed."""
    return random.Random(f"pqlink {seed} {direction}")


def _no_guests() -> dict[str, dict[str, int]]:
    return {name: {"offered": 0, "delivered": 0} for name in DIRECTIONS}
