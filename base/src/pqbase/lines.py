"""One JSON object a line over TCP: a server inside a selector's loop, a client that asks one thing at a time.

An answer is {"ok": true, …} or a refusal: {"ok": false, "code", "error", "hint"}.
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import IO, Final

from pqbase.documents import Json
from pqbase.errors import PqError

MAX_REQUEST_BYTES: Final = 65_536
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024


class LineError(PqError):
    """A line that is no request and no answer."""

    code = "bad_request"
    hint = "one JSON object a line"


class NoAnswer(PqError):
    """Nobody listens, silence, a connection that ended, or a line that is no answer."""

    code = "no_answer"

    def __init__(self, what: str, hint: str, why: str, *, connected: bool) -> None:
        super().__init__(what, hint, why=why)
        self.connected = connected
        """False: nobody took the connection."""


class Refused(PqError):
    """The other end understood and would not; code, words and hint are its own."""


def parse(line: bytes) -> Json:
    """One line as an object. Raises LineError."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise LineError("not a JSON object")
    return value


def encode(value: Json) -> bytes:
    """One object as a line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def refusal(error: PqError) -> Json:
    """An error as an answer."""
    return {"ok": False, "code": error.code, "error": str(error), "hint": error.hint}


class Server:
    """Listens on `address` and registers with `selector`, whose owner runs the loop and calls `key.data()`.

    answer(request, connection, now_ns) → one line's answer, or None where it comes later by `send`; a PqError
    that it raises is answered as a refusal. gone(connection): it is closed, by either end. At most `most`
    connections, each of whose lines has MAX_REQUEST_BYTES at most and takes its answer within `send_limit_s`.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        address: tuple[str, int],
        answer: Callable[[Json, socket.socket, int], Json | None],
        *,
        most: int,
        gone: Callable[[socket.socket], None] = lambda _: None,
        send_limit_s: float = 1.0,
    ) -> None:
        self._selector = selector
        self._answer = answer
        self._gone = gone
        self._most = most
        self._send_limit_s = send_limit_s
        self._buffers: dict[socket.socket, bytearray] = {}
        self._listener = socket.create_server(address, backlog=most)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def send(self, connection: socket.socket, answer: Json) -> None:
        """An answer, also one that comes late; to nobody where the one who asked has left."""
        if connection in self._buffers:
            try:
                connection.sendall(encode(answer))
            except OSError:
                self._drop(connection)

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
        connection.settimeout(self._send_limit_s)
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
        while connection in self._buffers and (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            try:
                answer = self._answer(parse(line), connection, time.monotonic_ns())
            except PqError as error:
                answer = refusal(error)
            if answer is not None:
                self.send(connection, answer)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._buffers[connection]
        connection.close()
        self._gone(connection)


class Client:
    """One connection to a server of lines, made when first asked and anew after it broke; for any thread.

    limit_s: of every wait for the other end (connect_s: of the connection). hint: what to do where nobody
    answers.
    """

    def __init__(
        self, address: tuple[str, int], limit_s: float, hint: str, *, connect_s: float | None = None
    ) -> None:
        self.address = address
        self._limits_s = limit_s, connect_s or limit_s
        self._hint = hint
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._lines: IO[bytes] | None = None

    def ask(self, op: str, **details: object) -> Json:
        """The answer, without its `ok`. Raises Refused and NoAnswer; the latter's cause tells silence by its
        TimeoutError."""
        with self._lock:
            try:
                answer = self._exchange(encode({"op": op, **details}))
            except (OSError, LineError) as error:
                connected = self._socket is not None
                self._disconnect()
                what = f"{self.address[0]}:{self.address[1]} does not answer `{op}`"
                why = getattr(error, "strerror", None) or str(error)
                raise NoAnswer(what, self._hint, why, connected=connected) from error
        if answer.pop("ok", False) is not True:
            words = answer.get("error", answer.get("message", "refused"))
            raise Refused(str(words), str(answer.get("hint", "")), str(answer.get("code", "")))
        return answer

    def _exchange(self, question: bytes) -> Json:
        if self._socket is None or self._lines is None:
            self._socket = socket.create_connection(self.address, timeout=self._limits_s[1])
            self._socket.settimeout(self._limits_s[0])
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines = self._socket.makefile("rb")
        self._socket.sendall(question)
        line = self._lines.readline(MAX_ANSWER_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("it closed the connection" if not line else "the answer is cut short")
        return parse(line)

    def _disconnect(self) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._lines = None

    def close(self) -> None:
        """End the connection; another question makes a new one."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
