"""Traffic control: TCP, one JSON object a line each way. A wrong request gets an answer, never silence."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable

from pqbase.net import claim
from pqsitl.errors import SitlError
from pqsitl.net import owner_hint

CONTROL_PORT = 48070
MAX_LINE_BYTES = 65_536
IDLE_S = 600.0

Handler = Callable[[dict[str, object]], dict[str, object]]


def answer_line(line: bytes, handler: Handler) -> dict[str, object]:
    """The answer to one request line; every error becomes {ok:false, code, message, hint}."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else f"not JSON: {error}"
        return SitlError(why, 'send one object a line, like {"op":"status"}', "bad_json").as_answer()
    if not isinstance(request, dict):
        return SitlError("the request is no object", 'send {"op":"status"}', "bad_request").as_answer()
    try:
        return handler(request)
    except SitlError as error:
        return error.as_answer()
    except Exception as error:  # noqa: BLE001 - the caller must hear of it; the connection goes on
        message = f"{type(error).__name__}: {error}"
        return SitlError(message, "look into the container's log", "internal").as_answer()


class _Connection(socketserver.StreamRequestHandler):
    timeout = IDLE_S
    server: ControlServer

    def handle(self) -> None:
        try:
            while line := self.rfile.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    self._send(
                        SitlError(
                            "the line is too long", f"at most {MAX_LINE_BYTES} bytes", "too_long"
                        ).as_answer()
                    )
                    return
                if line.strip():
                    self._send(answer_line(line, self.server.answer))
        except (TimeoutError, ConnectionError):
            return  # the caller went away; nothing is left to answer

    def _send(self, answer: dict[str, object]) -> None:
        self.wfile.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")


class ControlServer(socketserver.ThreadingTCPServer):
    """Serves one handler; requests of all connections run one after another."""

    allow_reuse_address = False  # `claim` does what each platform needs
    daemon_threads = True

    def __init__(self, host: str, port: int, handler: Handler) -> None:
        self._handler = handler
        self._lock = threading.Lock()
        try:
            super().__init__((host, port), _Connection)
        except OSError as error:
            raise SitlError(
                f"cannot listen on TCP {host}:{port}: {error.strerror}",
                owner_hint("t", port),
                "port_taken",
            ) from error
        self.port: int = self.server_address[1]

    def server_bind(self) -> None:
        """Bind, alone."""
        claim(self.socket)
        super().server_bind()

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        with self._lock:
            return self._handler(request)

    def serve_in_background(self) -> None:
        """Serve until `shutdown`."""
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="control", daemon=True
        ).start()
