"""A modelled TCP connection over the link router's own channels, in virtual time.

What is modelled: segments of 1,448 bytes in packets of at most 1,500, an acknowledgement a segment, an
initial window of ten segments (RFC 6928), slow start and congestion avoidance (RFC 5681), selective repeat of
what three later segments overtook (RFC 6675 in short), and the retransmission timer of RFC 6298 with a first
second for the SYN and Linux's least of 200 ms. Not modelled: delayed acknowledgements, Nagle, tail loss
probes, CUBIC.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Final

from pqevidence.tcp import FIRST_TIMEOUT_NS, INITIAL_WINDOW, LEAST_TIMEOUT_NS
from pqlab.sim.end import Role
from pqlink.achieved import SYN_BYTES
from pqlink.channel import Channel

MS: Final = 1_000_000
SEGMENT_BYTES: Final = 1448
#: IPv4, TCP with time stamps
HEAD_BYTES: Final = 52
MOST_TIMEOUT_NS: Final = 60_000 * MS
REPEAT_AFTER: Final = 3


class _Sender:
    """What one end knows of its way: timer and window."""

    def __init__(self) -> None:
        self.window = INITIAL_WINDOW
        self.threshold = float("inf")
        self.timeout_ns = FIRST_TIMEOUT_NS
        self._smooth_ns: float | None = None
        self._spread_ns = 0.0

    def measured(self, round_trip_ns: int) -> None:
        """RFC 6298, 2.2 and 2.3."""
        if self._smooth_ns is None:
            self._smooth_ns, self._spread_ns = float(round_trip_ns), round_trip_ns / 2
        else:
            self._spread_ns += (abs(self._smooth_ns - round_trip_ns) - self._spread_ns) / 4
            self._smooth_ns += (round_trip_ns - self._smooth_ns) / 8
        wanted_ns = round(self._smooth_ns + 4 * self._spread_ns)
        self.timeout_ns = min(MOST_TIMEOUT_NS, max(LEAST_TIMEOUT_NS, wanted_ns))

    def backed_off(self) -> None:
        """The timer ran out."""
        self.timeout_ns = min(MOST_TIMEOUT_NS, 2 * self.timeout_ns)

    def acknowledged(self) -> None:
        """One segment more arrived."""
        self.window += 1.0 if self.window < self.threshold else 1.0 / self.window

    def lost(self, *, timeout: bool) -> None:
        """Loss was found."""
        self.threshold = max(2.0, self.window / 2)
        self.window = 1.0 if timeout else self.threshold


class Air:
    """One connection. up: what the drone sends into; down: the ground. Both on the clock that calls."""

    def __init__(self, up: Channel, down: Channel) -> None:
        self._ways: dict[Role, Channel] = {"drone": up, "gcs": down}
        self._senders: dict[Role, _Sender] = {"drone": _Sender(), "gcs": _Sender()}
        self.sent_bytes = 0

    def connect(self, at_ns: int) -> int:
        """SYN and its answer, again after 1, 2, 4 … s; when the drone has it."""
        timeout_ns, begin_ns = FIRST_TIMEOUT_NS, at_ns
        while True:
            there = self.offer("drone", SYN_BYTES, begin_ns)
            back = self.offer("gcs", SYN_BYTES, there) if there is not None else None
            if back is not None and back - begin_ns <= timeout_ns:
                for sender in self._senders.values():
                    sender.measured(back - begin_ns)
                return back
            begin_ns += timeout_ns
            timeout_ns = min(MOST_TIMEOUT_NS, 2 * timeout_ns)

    def carry(self, sender: Role, size_bytes: int, at_ns: int) -> int:
        """When the last byte of a message of that size has arrived, whatever it takes."""
        return _Transfer(self, sender, size_bytes).run(at_ns)

    def sender(self, role: Role) -> _Sender:
        """Timer and window of one end."""
        return self._senders[role]

    def offer(self, sender: Role, size_bytes: int, at_ns: int) -> int | None:
        """One packet of one end; when it arrives, None where it is lost."""
        self.sent_bytes += size_bytes
        times = self._ways[sender].offer(size_bytes, at_ns)
        return times[0] if times else None


class _Transfer:
    """One message on its way. Events in the order of their times: each channel's clock only goes on."""

    def __init__(self, air: Air, role: Role, size_bytes: int) -> None:
        self._air, self._role = air, role
        self._other: Role = "gcs" if role == "drone" else "drone"
        self._sender = air.sender(role)
        whole, rest = divmod(size_bytes, SEGMENT_BYTES)
        self._sizes = [SEGMENT_BYTES] * whole + ([rest] if rest else [])
        count = len(self._sizes)
        self._arrived = [False] * count
        self._known = [False] * count
        #: (when it was sent last, how often, number of that sending)
        self._sent: list[tuple[int, int, int]] = [(0, 0, 0)] * count
        self._sendings = 0
        self._waiting = list(range(count - 1, -1, -1))  # the next one to send is the last of the list
        self._flying: set[int] = set()
        self._left = count
        self._highest = -1
        self._recovering_to = -1
        self._timer = 0
        self._queue: list[tuple[int, int, str, int]] = []
        self._order = itertools.count()

    def run(self, at_ns: int) -> int:
        self._fill(at_ns)
        while True:
            at_ns, _, kind, number = heapq.heappop(self._queue)
            if kind == "arrive":
                if not self._arrived[number]:
                    self._arrived[number] = True
                    self._left -= 1
                    if not self._left:
                        self._acknowledge(number, at_ns)
                        return at_ns
                self._acknowledge(number, at_ns)
            elif kind == "known":
                self._heard(number, at_ns)
            elif number == self._timer and self._flying:
                self._timed_out(at_ns)

    def _plan(self, at_ns: int, kind: str, number: int) -> None:
        heapq.heappush(self._queue, (at_ns, next(self._order), kind, number))

    def _fill(self, now_ns: int) -> None:
        while self._waiting and len(self._flying) < int(self._sender.window):
            number = self._waiting.pop()
            if self._known[number]:
                continue
            self._sendings += 1
            self._sent[number] = (now_ns, self._sent[number][1] + 1, self._sendings)
            self._flying.add(number)
            arrival_ns = self._air.offer(self._role, self._sizes[number] + HEAD_BYTES, now_ns)
            if arrival_ns is not None:
                self._plan(arrival_ns, "arrive", number)
        self._arm(now_ns)

    def _arm(self, now_ns: int) -> None:
        self._timer += 1
        self._plan(now_ns + self._sender.timeout_ns, "timer", self._timer)

    def _acknowledge(self, number: int, now_ns: int) -> None:
        back_ns = self._air.offer(self._other, HEAD_BYTES, now_ns)
        if back_ns is not None:
            self._plan(back_ns, "known", number)

    def _heard(self, number: int, now_ns: int) -> None:
        """An acknowledgement tells all that had arrived up to it, as cumulative and selective ones do."""
        sent_ns, times, sending = self._sent[number]
        if not self._known[number] and times == 1:  # Karn: a repeated one tells no round trip
            self._sender.measured(now_ns - sent_ns)
        for known in [n for n in self._flying if n == number or (n < number and self._arrived[n])]:
            self._flying.discard(known)
            self._known[known] = True
            self._sender.acknowledged()
        self._known[number] = True
        self._highest = max(self._highest, number)
        behind = self._highest - REPEAT_AFTER
        overtaken = [n for n in self._flying if n <= behind and self._sent[n][2] < sending]
        if overtaken:
            if min(overtaken) > self._recovering_to:
                self._sender.lost(timeout=False)
                self._recovering_to = self._highest
            self._flying.difference_update(overtaken)
            self._waiting += sorted(overtaken, reverse=True)
        self._fill(now_ns)

    def _timed_out(self, now_ns: int) -> None:
        self._sender.lost(timeout=True)
        self._sender.backed_off()
        self._waiting += sorted(self._flying, reverse=True)
        self._flying.clear()
        self._recovering_to = len(self._sizes)
        self._fill(now_ns)
