"""Serves the page, its document and sealed bundles' files on 127.0.0.1, to this machine alone; nothing can be
changed through it."""

from __future__ import annotations

import errno
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pqevidence.errors import EXIT_ENVIRONMENT, LabError, UsageError
from pqlab.live.snapshot import Snapshot

HOST = "127.0.0.1"
DEFAULT_PORT = 48088
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:"
)


#: what a browser shows of a bundle; the rest it may keep
_KINDS = {
    ".html": "text/html; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml",
    **dict.fromkeys((".csv", ".md", ".ndjson", ".yml", ".txt", ".log", ".lp"), "text/plain; charset=utf-8"),
}  # fmt: skip
LAST_PORT = 65535


def checked_port(port: int) -> int:
    """The port. Raises UsageError (exit 2) for a number that is none."""
    if not 0 <= port <= LAST_PORT:
        raise UsageError(
            "bad-port",
            f"--port {port} is no port",
            f"ports go from 1 to {LAST_PORT}; 0 is any that is free",
            f"./pqlab live --port {DEFAULT_PORT}",
        )
    return port


class LiveServer(ThreadingHTTPServer):
    """One page, one document, and the files of bundles. Raises UsageError for what is no port, LabError where
    the port is taken or not for this user."""

    daemon_threads = True

    def __init__(self, port: int, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.page = files("pqlab.live").joinpath("page.html").read_bytes()
        try:
            super().__init__((HOST, checked_port(port)), _Handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                other = port + 1 if port < LAST_PORT else 0
                raise LabError(
                    "port-taken",
                    f"port {port} on this machine is taken",
                    "another program listens on it",
                    f"./pqlab live --port {other}",
                    EXIT_ENVIRONMENT,
                ) from error
            if error.errno == errno.EACCES:
                raise LabError(
                    "port-refused",
                    f"this user may not listen on port {port}",
                    "low ports are for root",
                    f"./pqlab live --port {DEFAULT_PORT}",
                    EXIT_ENVIRONMENT,
                ) from error
            raise

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
        elif (path := self._bundle_file()) is not None:
            kind = _KINDS.get(path.suffix, "application/octet-stream")
            self._answer(200, kind, path.read_bytes())
        else:
            told = b"there is /, /state.json and /bundle/RUN_ID/ with a bundle's files\n"
            self._answer(404, "text/plain; charset=utf-8", told)

    def _bundle_file(self) -> Path | None:
        """The file of a sealed bundle that is asked for; None where there is none, or it lies elsewhere."""
        head, _, rest = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        run_id, _, inside = rest.partition("/")
        if head != "bundle" or "\0" in rest or run_id in ("", ".", ".."):
            return None
        bundle = self.server.snapshot.results.resolve() / run_id
        path = (bundle / inside).resolve()
        sealed = not bundle.is_symlink() and (bundle / "bagit.txt").is_file()
        return path if sealed and path.is_relative_to(bundle) and path.is_file() else None

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

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line every two seconds tells nobody anything."""
