"""JSON-RPC 2.0 server: NDJSON frames over mutual TLS 1.3, one thread a connection, few connections.

In scope: framing, TLS, limits, mapping errors to codes. Not in scope: what the methods do.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeGuard

from pqbase.net import claim
from pqtunnel.agent.idempotency import AnswerCache
from pqtunnel.agent.params import ParamsError
from pqtunnel.endpoint.sockets import PortTakenError
from pqtunnel.errors import TunnelError
from pqtunnel.rpc import out_of_date

MAX_CONNECTIONS: Final = 8
"""Of peers that have shown a certificate."""
MAX_STRANGERS: Final = 32
"""Connections that have not shown one yet; a newcomer takes the place of the oldest one."""
MAX_REQUEST_BYTES: Final = 1 << 20
TLS_TIMEOUT_S: Final = 5.0
ACCEPT_PAUSE_S: Final = 0.1
IDLE_TIMEOUT_S: Final = 3600.0
_SEND_TIMEOUT_S: Final = 30.0

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AGENT_ERROR: Final = -32000

Handler = Callable[[object], dict[str, object]]


class RpcServer:
    """Serves `methods` to clients whose certificate the lab CA signed."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        methods: dict[str, Handler],
        note: Callable[[str], None],
    ) -> None:
        self._context = context
        self._methods = methods
        self._note = note
        self._cache = AnswerCache()
        self._closing = False
        self._lock = threading.Lock()
        self._open: set[ssl.SSLSocket] = set()
        self._strangers: dict[ssl.SSLSocket, str] = {}
        """Source by connection, oldest first."""
        self._gave_way_count = 0
        self._said: set[str] = set()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim(self._listener)
            self._listener.bind(address)
            self._listener.listen(MAX_CONNECTIONS)
        except OSError as error:
            self._listener.close()
            raise PortTakenError(
                f"TCP {address[0]}:{address[1]} (PQ_CONTROL_PORT) cannot be bound: {error.strerror or error}"
            ) from error

    @property
    def address(self) -> tuple[str, int]:
        """Where the server listens."""
        host, port = self._listener.getsockname()
        return str(host), int(port)

    def serve(self) -> None:
        """Accept until `close`."""
        while not self._closing:
            try:
                sock, source = self._listener.accept()
            except OSError as error:
                if self._closing:
                    return
                # Out of descriptors, say: the reason lasts, so a pause keeps this from becoming a busy loop.
                self._note(f"rpc: accept failed: {error}")
                time.sleep(ACCEPT_PAUSE_S)
                continue
            try:
                sock.settimeout(TLS_TIMEOUT_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:
                sock.close()  # it hung up at once
                continue
            with self._lock:
                if len(self._strangers) >= MAX_STRANGERS:
                    self._give_way()
                self._strangers[stream] = str(source[0])
            thread = threading.Thread(
                target=self._connection, args=(stream, str(source[0])), name="rpc-connection", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # the host has no task to give now; the next connection may get one
                with self._lock:
                    self._strangers.pop(stream, None)
                stream.close()
                self._note(f"rpc: refused {source[0]}: {error}")

    def _give_way(self) -> None:
        """End the oldest connection without a certificate, of the source that has most of them: whoever keeps
        connecting and says nothing pushes out himself. The lock is held."""
        held = Counter(self._strangers.values())
        most = max(held.values())
        victim = next(stream for stream, source in self._strangers.items() if held[source] == most)
        source = self._strangers.pop(victim)
        with contextlib.suppress(OSError):  # it went away in this very moment
            # Wakes its thread. As a plain socket: SSLSocket's own would take the TLS state from under it.
            socket.socket.shutdown(victim, socket.SHUT_RDWR)
        self._gave_way_count += 1
        count = self._gave_way_count
        if count & (count - 1) == 0:  # the 1st, 2nd, 4th …: a flood writes no log full
            self._note(f"rpc: {count} connections without a certificate gave way, the last of {source}")

    def close(self) -> None:
        """Stop accepting and cut the open connections."""
        self._closing = True
        with self._lock:
            sockets = [self._listener, *self._open, *self._strangers]
        for sock in sockets:
            with contextlib.suppress(OSError):  # not connected any more
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # as above
        self._listener.close()

    # ------------------------------------------------------------------ one connection

    def _connection(self, stream: ssl.SSLSocket, source: str) -> None:
        try:
            stream.do_handshake()
            with self._lock:
                if self._strangers.pop(stream, None) is None:
                    return  # it gave way
                if len(self._open) >= MAX_CONNECTIONS:
                    self._note(f"rpc: refused {source}: {MAX_CONNECTIONS} connections are open")
                    return
                self._open.add(stream)
                problem = out_of_date(stream)
                if problem is not None and problem not in self._said:
                    self._said.add(problem)
                    self._note(f"rpc: {problem}")
            stream.settimeout(IDLE_TIMEOUT_S)
            self._requests(stream)
        except ssl.SSLError as error:
            if not self._closing and error.reason is not None:
                self._note(
                    f"rpc: TLS with {source} failed: {error.reason} (keys of another `make keys` run?)"
                )
        except OSError as error:
            if not self._closing and not isinstance(error, ConnectionError):
                self._note(f"rpc: connection from {source} ended: {error}")
        finally:
            with self._lock:
                self._strangers.pop(stream, None)
                self._open.discard(stream)
            stream.close()

    def _requests(self, stream: ssl.SSLSocket) -> None:
        buffer = bytearray()
        scanned = 0
        while True:
            end = buffer.find(b"\n", scanned)
            if end < 0:
                scanned = len(buffer)
                if scanned > MAX_REQUEST_BYTES:
                    limit = f"a request is longer than {MAX_REQUEST_BYTES} bytes"
                    hint = "no method needs as much: see docs/AGENT.md"
                    stream.sendall(_failure(None, INVALID_REQUEST, "request_too_long", limit, hint))
                    return
                chunk = stream.recv(65_536)
                if not chunk:
                    return
                buffer += chunk
                continue
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            scanned = 0
            if line.strip():
                answer = self._answer(line)
                stream.settimeout(_SEND_TIMEOUT_S)
                stream.sendall(answer)
                stream.settimeout(IDLE_TIMEOUT_S)

    def _answer(self, line: bytes) -> bytes:
        try:
            request = json.loads(line)
            json.dumps(request)  # what can be read and not be written again is refused here, not further on
        except ValueError as error:
            return _failure(None, PARSE_ERROR, "bad_json", f"not JSON: {error}", "one JSON object a line")
        except RecursionError:
            return _failure(None, PARSE_ERROR, "bad_json", "nested too deep", "one JSON object a line")
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
            return _failure(
                None,
                INVALID_REQUEST,
                "bad_request",
                "not a JSON-RPC 2.0 request object",
                'send {"jsonrpc":"2.0","id":"…","method":"hello"}',
            )
        identifier = request.get("id")
        if not _is_id(identifier):
            return _failure(
                None,
                INVALID_REQUEST,
                "bad_id",
                "the id must be a string of 1 to 200 characters, or a whole number of 64 bits",
                "give each request an id of its own, for example a UUID",
            )
        method = request.get("method")
        params = request.get("params", {})
        canonical = json.dumps([method, params], sort_keys=True).encode()
        try:
            return self._cache.answer(identifier, canonical, lambda: self._run(identifier, method, params))
        except TunnelError as error:
            return _failure(identifier, INVALID_REQUEST, error.code, str(error), error.hint)

    def _run(self, identifier: str | int, method: object, params: object) -> bytes:
        handler = self._methods.get(method) if isinstance(method, str) else None
        if handler is None:
            known = ", ".join(sorted(self._methods))
            return _failure(
                identifier, METHOD_NOT_FOUND, "unknown_method", f"no method {method!r}", f"methods: {known}"
            )
        try:
            result = handler(params)
        except ParamsError as error:
            return _failure(identifier, INVALID_PARAMS, error.code, str(error), error.hint)
        except TunnelError as error:
            self._note(f"{method}: {error} [{error.code}]")
            return _failure(identifier, AGENT_ERROR, error.code, str(error), error.hint)
        except Exception as error:  # noqa: BLE001  a defect must reach the controller as an answer, and the log in full
            self._note(f"{method}: defect\n{traceback.format_exc()}")
            return _failure(
                identifier,
                INTERNAL_ERROR,
                "internal",
                f"{type(error).__name__}: {error}",
                "this is a defect of the agent: see its log",
            )
        return _encoded({"jsonrpc": "2.0", "id": identifier, "result": result})


def _is_id(value: object) -> TypeGuard[str | int]:
    """JSON-RPC 2.0 §4 without null and fractions: an answer is remembered by its id."""
    if isinstance(value, str):
        return 0 < len(value) <= 200
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _failure(identifier: str | int | None, rpc_code: int, code: str, message: str, hint: str) -> bytes:
    error = {"code": rpc_code, "message": message, "data": {"code": code, "hint": hint}}
    return _encoded({"jsonrpc": "2.0", "id": identifier, "error": error})


def _encoded(message: dict[str, object]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
