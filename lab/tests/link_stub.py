"""A link router for tests: the real control and lease behind a socket, with routes that confirm at once."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

from pqlink.control import Control
from pqlink.lease import Lease
from pqlink.router import Router

Json = dict[str, Any]


class StubLink:
    """Serves on loopback until closed; `asked` holds what was sent to the two helpers."""

    def __init__(self, *, routes: bool = True, sides: dict[str, Json] | None = None) -> None:
        self.control = Control(Router("198.18.2.20", "198.18.2.30"), Lease(), {"netem": False})
        self._routes = routes
        self._sides = sides or {}
        self.asked: list[tuple[str, Json]] = []
        self.requests: list[Json] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._closing = False
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def state(self) -> Json:
        """What the router does now, with what has lapsed gone."""
        with self._lock:
            now_ns = time.monotonic_ns()
            self.control.tick(now_ns)
            return self.control.answer({"op": "state"}, now_ns)

    def close(self) -> None:
        """As when the container is killed."""
        self._closing = True
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            for line in connection.makefile("rb"):
                connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
        except (OSError, ValueError):
            return

    def _answer(self, request: Json) -> Json:
        if request["op"] == "ask":
            self.asked.append((request["role"], request["request"]))
            return {"ok": True, **self._sides.get(request["request"]["op"], {})}
        with self._lock:
            self.requests.append(request)
            now_ns = time.monotonic_ns()
            self.control.tick(now_ns)
            answer = self.control.answer(request, now_ns)
            if request["op"] == "set" and self._routes:
                self.control.routes.update(drone=True, gcs=True)
            if request["op"] == "clear":
                self.control.routes.update(drone=False, gcs=False)
            return answer
