"""What the endpoint asks of a handshake, and of a tunnel as a whole.

`native` has the tunnel's: the machines that `pqlink` runs, with keys that Python never reads. The tests put
the executable specification (`pqspec.shell`) in its place, over the same sockets, to hold both against each
other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pqtunnel.config import EndpointConfig
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.endpoint.plane import Plane
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.primitives import Primitives
from pqtunnel.primitives.pool import PairMakers, Wipeable
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer


@dataclass(frozen=True)
class Dial:
    """One handshake as the drone wants it. `rx_index` is free in the session; `rekey` names the session to
    replace; `signs`: the drone proves itself by a signature, too; `early`: the body of the Challenge of an
    earlier connection that ended with a Retry."""

    suite: Suite
    min_level: int
    epoch: int
    rx_index: int
    rekey: RekeyFrom | None = None
    signs: bool = False
    early: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """What the gcs accepts in one handshake from the address `source`; meanings as in
    `pqspec.handshake.gcs.GcsHandshake`. `install` gets the epoch and the round trip, ns, before the last word
    leaves; where it raises TunnelError nothing leaves."""

    source: str
    accepted: Collection[str]
    min_level: int
    rx_index: int
    admit_key: Callable[[bytes], None]
    rekey_basis: Callable[[bytes], RekeyBasis | None]
    install: Callable[[Epoch, int], None]
    drone_keys: Callable[[bytes], Mapping[str, bytes]] | None = None
    key_source: Callable[[str], Any] | None = None
    """Pairs of what `pairs` of the same handshakes makes."""


class Loads(Protocol):
    """What both ends' handshakes have."""

    def load(self) -> None:
        """Make ready what the first handshake needs: none may pay for it. Raises ProviderMissing,
        KeyMaterialError."""


class DroneHandshakes(Loads, Protocol):
    """The drone's end of handshakes with the keys it was made with."""

    def dial(
        self, sock: socket.socket, started_ns: int, dial: Dial, tracer: Tracer, counters: dict[str, int]
    ) -> Epoch:
        """Over a connected socket, whose connect began at `started_ns` (monotonic). Raises HandshakeError of
        every kind, counted but for a lost connection; the peer has been told what it may be told."""


class GcsHandshakes(Loads, Protocol):
    """The gcs's end."""

    @property
    def last_word(self) -> bytes:
        """What a connection is told that gives way before its right Hello: a Retry, where these handshakes
        know an EarlyHello; else nothing."""

    @property
    def pairs(self) -> PairMakers[Wipeable]:
        """Makes pairs that `Answer.key_source` may give."""

    def answer(
        self, sock: socket.socket, started_ns: int, answer: Answer, tracer: Tracer, counters: dict[str, int]
    ) -> None:
        """Over an accepted socket. Raises as `dial`."""


class Tunnel(Protocol):
    """What carries an endpoint: a data plane, and the handshakes whose keys it takes in."""

    def plane(self, config: EndpointConfig, note: Callable[[str], None]) -> Plane:
        """The UDP side. Raises PortTakenError."""

    def drone(self, keys: DroneKeys, primitives: Primitives) -> DroneHandshakes:
        """The drone's end."""

    def gcs(self, keys: GcsKeys, primitives: Primitives) -> GcsHandshakes:
        """The gcs's end."""
