"""A link router for tests: the real control and lease behind a socket, with routes that confirm at once."""

from __future__ import annotations

import socket
import threading
import time

from pqbase.documents import Json
from pqlink.control import Control
from pqlink.lease import Lease
from pqlink.router import Router
from served import Served


class StubLink:
    """Serves on loopback until closed; `asked` holds what was sent to the two helpers."""

    def __init__(self, *, routes: bool = True, sides: dict[str, Json] | None = None) -> None:
        self.control = Control(Router("198.18.2.20", "198.18.2.30"), Lease(), {"netem": False})
        self._routes = routes
        self._sides = sides or {}
        self.asked: list[tuple[str, Json]] = []
        self.requests: list[Json] = []
        self.ups: list[Json] = []
        """What the way up was, one after another."""
        self._lock = threading.Lock()
        self._served = Served(self._answer)
        self.address, self.close = self._served.address, self._served.close

    def state(self) -> Json:
        """What the router does now, with what has lapsed gone."""
        with self._lock:
            return self._state(time.monotonic_ns())

    def _state(self, now_ns: int) -> Json:
        self.control.tick(now_ns)
        state = self.control.answer({"op": "state"}, now_ns)
        if state["active"] and (not self.ups or self.ups[-1] != state["settings"]["up"]):
            self.ups.append(state["settings"]["up"])
        return state

    def _answer(self, request: Json, _connection: socket.socket, now_ns: int) -> Json:
        if request["op"] == "ask":
            self.asked.append((request["role"], request["request"]))
            return {"ok": True, **self._sides.get(request["request"]["op"], {})}
        with self._lock:
            self.requests.append(request)
            self._state(now_ns)
            answer = self.control.answer(request, now_ns)
            self._state(now_ns)
            if request["op"] == "set" and self._routes:
                self.control.routes.update(drone=True, gcs=True)
            if request["op"] == "clear":
                self.control.routes.update(drone=False, gcs=False)
            return answer
