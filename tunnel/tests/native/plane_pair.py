"""Two data planes on loopback with keys installed by hand: no handshake, no agent."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core_pair import established
from endpoint_kit import tunnel_of

from pqspec.session import RTT_LIMIT_NS
from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.plane import Plane
from pqtunnel.primitives import load
from waiting import LIMIT_S

HOSTS = {"drone": "127.0.0.1", "gcs": "127.0.0.2"}


class PlanePair:
    """A drone's and a gcs's plane and one plaintext peer for each, all open."""

    def __init__(self, kind: str, token: str, *, ledger: bool = False) -> None:
        self.token = token
        self.notes: list[str] = []
        self.planes: dict[str, Plane] = {}
        self.cells: dict[str, Any] = {}
        self.peers = {role: socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for role in HOSTS}
        kinds = {"drone": "native", "gcs": "python"} if kind == "mixed" else dict.fromkeys(HOSTS, kind)
        for role, host in HOSTS.items():
            peer = self.peers[role]
            peer.bind(("127.0.0.3", 0))
            peer.settimeout(LIMIT_S)
            settings = {
                "PQ_BIND": host,
                "PQ_PEER": HOSTS["gcs" if role == "drone" else "drone"],
                "PQ_SEALED_PORT": "0",
                "PQ_PLAINTEXT_PORT": "0",
                "PQ_PLAINTEXT_SOURCE": "127.0.0.3",
                "PQ_PLAINTEXT_TARGET": f"127.0.0.3:{peer.getsockname()[1]}",
            }
            config = EndpointConfig.from_environment(role, settings)  # type: ignore[arg-type]
            plane = self.planes[role] = tunnel_of(kinds[role]).plane(config, self.notes.append)
            plane.open()
            self.cells[role] = plane.new_cell(load(), ledger=ledger)
            plane.attach(self.cells[role])
            # What is held up until its epoch has retired is refused: as late as on the slowest link.
            self.cells[role].session.set_rtt(RTT_LIMIT_NS)
            plane.set_gate(config.routes["mavproxy"], 1, is_open=True)
        self.drone, self.gcs = self.planes["drone"], self.planes["gcs"]
        self.drone.set_peer(self.gcs.sealed_address)
        self.gcs.set_peer(self.drone.sealed_address)

    def install(self, epoch: int) -> None:
        """Keys of an epoch: the gcs first, as in a handshake; then the drone's confirming keepalive."""
        plain = self.token == "null"
        indices = (1, 1) if plain else (2 * epoch + 1, 2 * epoch + 2)
        for role, own in (("gcs", indices), ("drone", indices[::-1])):
            keys = established(role, self.token, epoch, *own)  # type: ignore[arg-type]
            self.cells[role].session.install(keys, time.monotonic_ns())
        assert self.drone.send_keepalive()

    def counters(self, role: str) -> dict[str, int]:
        now: dict[str, int] = self.cells[role].counters.now()
        return now

    def send(self, role: str, payload: bytes) -> None:
        self.peers[role].sendto(payload, self.planes[role].plaintext_address)

    def receive(self, role: str) -> bytes:
        """The next datagram that this role's plaintext peer gets, announces left out; TimeoutError."""
        while not (payload := self.peers[role].recv(65_536)):
            continue
        return payload

    def close(self) -> None:
        for plane in self.planes.values():
            plane.close()
        for peer in self.peers.values():
            peer.close()


@contextmanager
def plane_pair(kind: str, token: str = "aesgcm", **options: Any) -> Iterator[PlanePair]:
    made = PlanePair(kind, token, **options)
    try:
        yield made
    finally:
        made.close()
