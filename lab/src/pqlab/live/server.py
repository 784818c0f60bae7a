"""Serves the page and its document on 127.0.0.1, to this machine alone; nothing can be changed through it."""

from __future__ import annotations

import errno
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from pqlab.errors import EXIT_ENVIRONMENT, LabError
from pqlab.live.snapshot import Snapshot

HOST = "127.0.0.1"
DEFAULT_PORT = 48088
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:"
)


class LiveServer(ThreadingHTTPServer):
    """One page, one document. Raises LabError where the port is taken."""

    daemon_threads = True

    def __init__(self, port: int, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.page = files("pqlab.live").joinpath("page.html").read_bytes()
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise LabError(
                "port-taken", f"port {port} on this machine is taken", "another program listens on it",
                f"./pqlab live --port {port + 1}", EXIT_ENVIRONMENT,
            ) from error  # fmt: skip

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""
        return f"http://{HOST}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer

    def do_GET(self) -> None:
        # another site's name that resolves to this address must not read the lab's state
        name = (self.headers.get("Host") or "").partition(":")[0]
        if name not in (HOST, "localhost"):
            self._answer(403, "text/plain; charset=utf-8", b"this page answers to 127.0.0.1 alone\n")
        elif self.path == "/":
            self._answer(200, "text/html; charset=utf-8", self.server.page)
        elif self.path == "/state.json":
            body = json.dumps(self.server.snapshot.document()).encode()
            self._answer(200, "application/json", body)
        else:
            self._answer(404, "text/plain; charset=utf-8", b"there is / and /state.json\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        try:
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the browser went away; nobody is left to tell

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a line every two seconds tells nobody anything."""
