"""Control connections inside a selector loop: lines in, answers out, a bounded number of bounded buffers."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from pqattack.errors import RequestError
from pqattack.lines import MAX_REQUEST_BYTES, encode, failure, parse_request

Json = dict[str, Any]
_SEND_LIMIT_S: Final = 1.0


class Connections:
    """Listens on `control` and registers with `selector`, whose owner runs the loop and calls `key.data()`.

    answer(request, connection, now_ns) → one line's answer; gone(connection): it is closed, by either end.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        control: tuple[str, int],
        answer: Callable[[Json, object, int], Json],
        *,
        most: int,
        gone: Callable[[object], None] = lambda _: None,
    ) -> None:
        self._selector = selector
        self._answer = answer
        self._gone = gone
        self._most = most
        self._buffers: dict[socket.socket, bytearray] = {}
        self._listener = socket.create_server(control, backlog=most)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Every connection and the listener."""
        for connection in list(self._buffers):
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if len(self._buffers) >= self._most:
            connection.close()
            return
        connection.settimeout(_SEND_LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffers[connection] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(connection))

    def _read(self, connection: socket.socket) -> None:
        try:
            chunk = connection.recv(MAX_REQUEST_BYTES)
        except OSError:
            chunk = b""
        buffer = self._buffers[connection]
        buffer += chunk
        if not chunk or len(buffer) > MAX_REQUEST_BYTES:
            self._drop(connection)
            return
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            try:
                answer = self._answer(parse_request(line), connection, time.monotonic_ns())
            except RequestError as error:
                answer = failure(error)
            try:
                connection.sendall(encode(answer))
            except OSError:
                self._drop(connection)
                return

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._buffers[connection]
        connection.close()
        self._gone(connection)
