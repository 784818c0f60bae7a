"""Certificates and a bare RPC server for tests that need no tunnel."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pqtunnel.agent.server import Handler, RpcServer
from pqtunnel.pki import Authority
from pqtunnel.rpc import RpcClient, TlsFiles
from waiting import LIMIT_S


def issue_all(folder: Path) -> Path:
    """A CA and the three roles' certificates."""
    authority = Authority.new()
    for role in ("controller", "drone", "gcs"):
        cert, key = authority.issue(role)
        (folder / role).mkdir(parents=True)
        (folder / role / "ca.cert.pem").write_bytes(authority.cert_pem())
        (folder / role / "tls.cert.pem").write_bytes(cert)
        (folder / role / "tls.key.pem").write_bytes(key)
    return folder


@contextmanager
def serving(keys: Path, methods: dict[str, Handler], role: str = "gcs") -> Iterator[RpcServer]:
    """An RPC server with these methods."""
    context = TlsFiles.in_folder(keys / role).context(ssl.Purpose.CLIENT_AUTH)
    notes: list[str] = []
    server = RpcServer(("127.0.0.1", 0), context, methods, notes.append)
    server.notes = notes  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(LIMIT_S)


def client_of(
    server: RpcServer, keys: Path, *, server_name: str = "gcs", timeout_s: float = LIMIT_S
) -> RpcClient:
    """A controller's client."""
    host, port = server.address
    tls = TlsFiles.in_folder(keys / "controller")
    return RpcClient(host, port, tls, server_name=server_name, call_timeout_s=timeout_s)


@contextmanager
def tcp_service(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A TCP server that hands every connection to `answer`; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def loop() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(LIMIT_S)
                try:
                    answer(sock)
                except OSError:
                    continue  # the client went away first

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        with contextlib.suppress(OSError):  # Windows: not connected; closing wakes accept() there
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LIMIT_S)
