"""What the endpoint asks of a handshake, and the choice between the two there are.

`native` is the tunnel's: the machines that `pqlink` runs, with keys that Python never reads. `specified`
drives the executable specification (`pqtunnel.handshake`) over the same sockets; the tests hold both against
each other. The data plane decides: each takes in its own keys.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.primitives import Primitives
from pqtunnel.primitives.pool import PairMakers, Wipeable
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer


@dataclass(frozen=True)
class Dial:
    """One handshake as the drone wants it. `rx_index` is free in the session; `rekey` names the session to
    replace; `signs`: the drone proves itself by a signature, too."""

    suite: Suite
    min_level: int
    epoch: int
    rx_index: int
    rekey: RekeyFrom | None = None
    signs: bool = False


@dataclass(frozen=True)
class Answer:
    """What the gcs accepts in one handshake; meanings as in `handshake.gcs.GcsHandshake`. `install` gets the
    epoch and the round trip, ns, before the last word leaves; where it raises TunnelError nothing leaves."""

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
    def pairs(self) -> PairMakers[Wipeable]:
        """Makes pairs that `Answer.key_source` may give."""

    def answer(
        self, sock: socket.socket, started_ns: int, answer: Answer, tracer: Tracer, counters: dict[str, int]
    ) -> None:
        """Over an accepted socket. Raises as `dial`."""


def drone_handshakes(kind: str, keys: DroneKeys, primitives: Primitives) -> DroneHandshakes:
    """Those of a data plane of this kind."""
    if kind == "native":
        from pqtunnel.endpoint.native_handshakes import NativeDrone

        return NativeDrone(keys)
    from pqtunnel.endpoint.specified_handshakes import SpecifiedDrone

    return SpecifiedDrone(keys, primitives)


def gcs_handshakes(kind: str, keys: GcsKeys, primitives: Primitives) -> GcsHandshakes:
    """Those of a data plane of this kind."""
    if kind == "native":
        from pqtunnel.endpoint.native_handshakes import NativeGcs

        return NativeGcs(keys)
    from pqtunnel.endpoint.specified_handshakes import SpecifiedGcs

    return SpecifiedGcs(keys, primitives)
