"""Two agents in one process on loopback, with plaintext peers beside them, for the endpoint and agent
tests."""

from __future__ import annotations

import importlib.util
import json
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pqspec.shell import SpecifiedTunnel
from pqtunnel.agent import methods, server
from pqtunnel.agent.main import Agent
from pqtunnel.config import EndpointConfig, Role
from pqtunnel.endpoint import dialer, dialling
from pqtunnel.endpoint.handshakes import Tunnel
from pqtunnel.endpoint.tunnel import native_tunnel
from pqtunnel.handshake import limits
from pqtunnel.primitives import load
from pqtunnel.rpc import RpcClient, TlsFiles, fetch_all
from waiting import LIMIT_S, free_port

SUITE = "cs-mlkem768-aesgcm-mldsa65"


def tunnel_of(kind: str) -> Tunnel:
    """`native`, or `python`: the specification in its place; "": native where its wheel is installed."""
    if kind == "native" or (not kind and importlib.util.find_spec("pq_core")):
        return native_tunnel()
    return SpecifiedTunnel()


class PlainPeer:
    """What MAVProxy is to an endpoint: a UDP socket that sends plaintext in and takes plaintext out."""

    def __init__(self, host: str) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.socket.settimeout(LIMIT_S)
        self.target: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.socket.getsockname()
        return host, port

    def send(self, payload: bytes) -> None:
        assert self.target is not None
        self.socket.sendto(payload, self.target)

    def receive(self) -> bytes:
        """The next non-empty datagram; TimeoutError where none comes."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            payload = self.socket.recv(65_536)
            if payload:
                return payload
        raise TimeoutError("only announces came")

    def nothing_for(self, seconds: float) -> bool:
        """True when nothing but announces comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if self.socket.recv(65_536):
                    return False
            except TimeoutError:
                break
            finally:
                self.socket.settimeout(LIMIT_S)
        return True


class Side:
    """One agent with its plaintext peer and a controller's client."""

    def __init__(
        self,
        role: Role,
        keys: Path,
        state: Path,
        *,
        facts: bool = False,
        limits: dict[str, Any] | None = None,
        plane: str = "",
        **extra: str,
    ) -> None:
        host = {"gcs": "127.0.0.1", "drone": "127.0.0.2"}[role]
        self.plain = PlainPeer("127.0.0.3" if role == "drone" else "127.0.0.4")
        settings = {
            "PQ_BIND": host,
            "PQ_CONTROL_BIND": "127.0.0.1",
            "PQ_CONTROL_PORT": "0",
            "PQ_HANDSHAKE_PORT": "0",
            "PQ_SEALED_PORT": "0",
            "PQ_PLAINTEXT_PORT": "0",
            "PQ_PLAINTEXT_TARGET": f"{self.plain.address[0]}:{self.plain.address[1]}",
            "PQ_KEYS": str(keys / role),
            "PQ_STATE": str(state / role),
            "PQ_TELEMETRY_RATE_HZ": "0",
            **extra,
        }
        self.config = replace(EndpointConfig.from_environment(role, settings), **(limits or {}))
        self.agent = Agent(self.config, load(), tunnel=tunnel_of(plane))
        if not facts:
            self.agent.facts.open = lambda: None  # type: ignore[method-assign]  # a self-test is seconds of CPU
        self.agent.open()
        self.plain.target = self.agent.endpoint.dataplane.plaintext_address
        self.controller = TlsFiles.in_folder(keys / "controller")
        self.rpc = self.client()

    @property
    def door(self) -> tuple[str, int]:
        """Where this ground station is dialled."""
        address = self.agent.endpoint.handshake_address
        assert address is not None
        return address

    def client(self, **options: Any) -> RpcClient:
        host, port = self.agent.server.address
        return RpcClient(host, port, self.controller, server_name=self.config.role, **options)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.rpc.call(method, params)

    def counters(self) -> dict[str, Any]:
        counted: dict[str, Any] = self.call("counters")["counters"]
        return counted

    def close(self) -> None:
        self.rpc.close()
        self.agent.close()
        self.plain.socket.close()


class Lab:
    """A gcs and a drone that know each other; `handshake_port` and `sealed_port` put something in between:
    they are given the gcs's port and return the one the drone uses. Behind `sealed_port` the gcs does not
    know where sealed packets will come from. `drone`: further settings of the drone."""

    def __init__(
        self,
        keys: Path,
        state: Path,
        *,
        handshake_port: Callable[[int], int] = lambda port: port,
        sealed_port: Callable[[int], int] | None = None,
        plane: str = "",
        drone: dict[str, str] | None = None,
        gcs: dict[str, str] | None = None,
    ) -> None:
        # The gcs expects the drone's sealed packets from the address it dialled from and a configured port.
        sealed = str(free_port("127.0.0.2"))
        self.gcs = Side(
            "gcs",
            keys,
            state,
            plane={"mixed": "python"}.get(plane, plane),
            PQ_PEER_SEALED_PORT=sealed if sealed_port is None else "9",
            **(gcs or {}),
        )
        handshake = self.gcs.door
        try:
            self.drone = Side(
                "drone",
                keys,
                state,
                PQ_PEER="127.0.0.1",
                PQ_SEALED_PORT=sealed,
                plane={"mixed": "native"}.get(plane, plane),
                PQ_HANDSHAKE_PORT=str(handshake_port(handshake[1])),
                PQ_PEER_SEALED_PORT=str(
                    (sealed_port or int)(self.gcs.agent.endpoint.dataplane.sealed_address[1])
                ),
                **(drone or {}),
            )
        except BaseException:
            self.gcs.close()
            raise

    def close(self) -> None:
        self.drone.close()
        self.gcs.close()

    def event(self, kind: str, cell: str = "cell-1", **params: Any) -> dict[str, Any]:
        """An event at the drone."""
        return self.drone.call("event", cell_id=cell, kind=kind, **params)

    def prepare(self, suite: str = SUITE, cell: str = "cell-1", **extra: Any) -> None:
        for side in (self.gcs, self.drone):
            side.call("prepare", cell_id=cell, suite_id=suite, **extra)
            side.call("start", cell_id=cell)

    def flowing(self, count: int = 1, **prepared: Any) -> None:
        """A cell with so many handshakes, its window open."""
        self.prepare(**prepared)
        done = self.handshakes(count)
        assert done["completed"] == count, done
        self.open()

    def handshakes(self, count: int = 1, cell: str = "cell-1") -> dict[str, Any]:
        return self.drone.call(
            "event", cell_id=cell, kind="handshake_block", count=count, min_count=1, max_s=LIMIT_S
        )

    def open(self, window: str = "traffic", cell: str = "cell-1") -> None:
        for side in (self.gcs, self.drone):
            side.call("event", cell_id=cell, kind="traffic_open", window=window, route="mavproxy", spec=None)

    def shut(self, window: str = "traffic", cell: str = "cell-1") -> None:
        for side in (self.drone, self.gcs):
            side.call("event", cell_id=cell, kind="traffic_close", window=window)

    def stop(self, cell: str = "cell-1") -> tuple[dict[str, Any], dict[str, Any]]:
        """(drone counters, gcs counters)."""
        drone = self.drone.call("stop", cell_id=cell)["counters"]
        return drone, self.gcs.call("stop", cell_id=cell)["counters"]


#: how long an end waits for the other, or for its own source, before it gives up
GIVES_UP_AFTER = (
    (limits, "BASE_DEADLINE_S"), (dialer, "CONNECT_TIMEOUT_S"), (dialling, "CONFIRM_LIMIT_S"),
    (methods, "FIRST_DATAGRAM_LIMIT_S"), (server, "TLS_TIMEOUT_S"),
)  # fmt: skip


@contextmanager
def lab(keys: Path, state: Path, **options: Any) -> Iterator[Lab]:
    """Both ends wait for each other as long as a test waits: none gives up because this machine is busy."""
    with pytest.MonkeyPatch.context() as patched:
        for module, limit in GIVES_UP_AFTER:
            patched.setattr(module, limit, LIMIT_S)
        made = Lab(keys, state, **options)
        try:
            yield made
        finally:
            made.close()


def spans_of(side: Side, cell: str = "cell-1") -> dict[str, list[dict[str, Any]]]:
    """Span rows of a cell by handshake id."""
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in fetch_all(side.rpc, cell, "spans"):
        row = json.loads(line)
        by_id[row["handshake_id"]].append(row)
    return by_id
