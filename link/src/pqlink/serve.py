"""The router's process: TUN, control connections and the two sides in one loop, without a thread.

The loop sleeps until the next packet is due, so an idle router costs nothing. `select` because its timeout
has microseconds, where epoll's has milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pqbase import lines
from pqbase.documents import Json
from pqbase.errors import PqError
from pqbase.lines import MAX_REQUEST_BYTES, encode, parse, refusal
from pqlink.control import ROLES, Control
from pqlink.device import has_netem, open_router
from pqlink.errors import LinkError, RequestError
from pqlink.lease import Lease
from pqlink.router import Router

#: a packet train is taken in pieces, so that what is due is never kept waiting by what arrives
_READ_AT_ONCE: Final = 32
_PACKET_BYTES: Final = 2048
#: the sides hear from us this often; they go direct when they do not
SIDE_EVERY_NS: Final = 500_000_000
SIDE_TTL_S: Final = 3.0
_SIDE_ANSWER_NS: Final = 1_000_000_000
_MAX_CONNECTIONS: Final = 8


@dataclass(frozen=True)
class Addresses:
    """Where everything is: our address on the air network, both ends, our control, the sides' control; and
    the lab's own attacker, where there is one, whose packets take the same queues."""

    air: str
    drone: str
    gcs: str
    control: tuple[str, int]
    sides: dict[str, tuple[str, int]]
    guest: str | None = None


@dataclass
class _Asked:
    role: str
    until_ns: int
    reply: Callable[[Json], None] | None


class Server:
    """Runs until killed; holds nothing that outlives it but routes, which the sides withdraw."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._router = Router(addresses.drone, addresses.gcs, guest=addresses.guest)
        self._lease = Lease()
        self._tun = open_router(addresses.air, addresses.drone, addresses.gcs, addresses.guest)
        self._control = Control(self._router, self._lease, {"netem": has_netem(), "air": addresses.air})
        self._selector = selectors.SelectSelector()
        self._selector.register(self._tun, selectors.EVENT_READ, self._read_tun)
        # nobody who reads slowly may keep a packet back: no wait for a control connection
        self._lines = lines.Server(
            self._selector, addresses.control, self._request, most=_MAX_CONNECTIONS, send_limit_s=0.0
        )
        self._side = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._side.setblocking(False)
        self._selector.register(self._side, selectors.EVENT_READ, self._hear_sides)
        self._asked: dict[str, _Asked] = {}
        self._number = 0
        self._side_next_ns = 0
        self.write_failed = 0

    def run(self) -> None:
        """Route and obey until the process ends."""
        addresses = self._addresses
        note(f"routes {addresses.drone} and {addresses.gcs} when asked on {addresses.control}")
        while True:
            for key, _ in self._selector.select(self._wait_s()):
                key.data()
            now_ns = time.monotonic_ns()
            self._release(now_ns)
            self._upkeep(now_ns)

    # ------------------------------------------------------------------ packets

    def _wait_s(self) -> float | None:
        times = [self._router.next_ns, self._lease.next_ns]
        times += [asked.until_ns for asked in self._asked.values()]
        if self._lease.active:
            times.append(self._side_next_ns)
        due = [t for t in times if t is not None]
        return max(0.0, (min(due) - time.monotonic_ns()) / 1e9) if due else None

    def _read_tun(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                packet = os.read(self._tun, _PACKET_BYTES)
            except BlockingIOError:
                return
            self._router.offer(packet, time.monotonic_ns())

    def _release(self, now_ns: int) -> None:
        for packet in self._router.due(now_ns):
            try:
                os.write(self._tun, packet)
            except OSError as error:  # a full device: on a radio that is a loss too, and it is counted
                if self.write_failed == 0:
                    note(f"the device refused a packet: {error}")
                self.write_failed += 1

    # ------------------------------------------------------------------ the two sides

    def _upkeep(self, now_ns: int) -> None:
        ended = self._control.tick(now_ns)
        if ended is not None:
            note(f"{ended} ran out: the link goes back to what it was")
            if ended == "holder":
                self._tell_sides(now_ns)
        if self._lease.active and now_ns >= self._side_next_ns:
            self._tell_sides(now_ns)
        for number, asked in list(self._asked.items()):
            if now_ns >= asked.until_ns:
                del self._asked[number]
                self._control.routes[asked.role] = False
                if asked.reply is not None:
                    text = f"the {asked.role} side does not answer"
                    asked.reply(
                        refusal(LinkError(text, code="no_side", hint="./compose/lab.sh profile link"))
                    )

    def _tell_sides(self, now_ns: int) -> None:
        self._side_next_ns = now_ns + SIDE_EVERY_NS
        request: Json = {"op": "direct"}
        if self._lease.active:
            request = {"op": "via", "router": self._addresses.air, "ttl_s": SIDE_TTL_S}
        for role in ROLES:
            self._ask(role, request, None, now_ns)

    def _ask(self, role: str, request: Json, reply: Callable[[Json], None] | None, now_ns: int) -> None:
        self._number += 1
        number = str(self._number)
        self._asked[number] = _Asked(role, now_ns + _SIDE_ANSWER_NS, reply)
        with contextlib.suppress(OSError):  # nobody there: the deadline above tells
            self._side.sendto(encode({**request, "id": number}), self._addresses.sides[role])

    def _hear_sides(self) -> None:
        try:
            answer = parse(self._side.recv(MAX_REQUEST_BYTES))
        except (OSError, PqError) as error:
            note(f"a side's answer cannot be read: {error}")
            return
        asked = self._asked.pop(str(answer.pop("id", "")), None)
        if asked is None:
            return
        if "via" in answer:
            self._control.routes[asked.role] = answer["via"] == self._addresses.air
        if asked.reply is not None:
            asked.reply(answer)

    # ------------------------------------------------------------------ control connections

    def _request(self, request: Json, connection: socket.socket, now_ns: int) -> Json | None:
        if request.get("op") == "ask":
            role, inner = request.get("role"), request.get("request")
            if role not in ROLES or not isinstance(inner, dict):
                raise RequestError("ask needs role drone or gcs, and a request")
            self._ask(str(role), inner, lambda answer: self._lines.send(connection, answer), now_ns)
            return None
        was_active = self._lease.active
        answer = self._control.answer(request, now_ns)
        if (self._lease.active or was_active) and request.get("op") in ("set", "clear"):
            note(f"{request['op']} by {request.get('owner')}")
            self._tell_sides(now_ns)
        return answer


def note(text: str) -> None:
    """One line for people."""
    print(f"link: {text}", file=sys.stderr, flush=True)
