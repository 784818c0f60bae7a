"""What this package may ever do: to which addresses, how fast, for how long. Constants, not settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pqattack.errors import BoundsError

#: the lab's air network, of the benchmark range (RFC 2544) that is nobody's LAN: nothing is sent elsewhere
AIR: Final = ipaddress.IPv4Network("198.18.2.0/24")
MAX_RATE_PPS: Final = 25_000
MAX_FOR_S: Final = 120.0
#: connection attempts cost both kernels far more than datagrams
MAX_HANDSHAKES_PPS: Final = 2_000
#: what a careless neighbour sends; faster is an attack and has another kind
MAX_BENIGN_PPS: Final = 20
MIN_SIZE_BYTES: Final = 32
MAX_SIZE_BYTES: Final = 1_400
BIN_NS: Final = 20_000_000
#: in no bin more than the greatest rate gives: a sender that fell behind does not catch up with a burst
MAX_BIN_COUNT: Final = MAX_RATE_PPS * BIN_NS // 1_000_000_000
DRONE_PORT: Final = 46012
GCS_PORT: Final = 46011
HANDSHAKE_PORT: Final = 46000
TARGETS: Final = ("drone", "gcs")


@dataclass(frozen=True)
class Addresses:
    """Where the lab's parts are on air; `link` is the router's arm. Built by `from_environment` alone."""

    here: str
    drone: str
    gcs: str
    link: str

    def of(self, target: str) -> str:
        """Address of `drone` or `gcs`."""
        return {"drone": self.drone, "gcs": self.gcs}[target]

    def other(self, target: str) -> str:
        """Address of the target's peer."""
        return {"drone": self.gcs, "gcs": self.drone}[target]


def port_of(target: str) -> int:
    """The target's sealed port."""
    return {"drone": DRONE_PORT, "gcs": GCS_PORT}[target]


def port_of_peer(target: str) -> int:
    """The sealed port of the target's peer, which its datagrams come from."""
    return {"drone": GCS_PORT, "gcs": DRONE_PORT}[target]


def inside(name: str, text: str) -> str:
    """`text` when it is a host address of the air network. Raises BoundsError."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise BoundsError(f"{name} is not an IPv4 address: {text!r}") from error
    if address not in AIR or address in (AIR.network_address, AIR.broadcast_address):
        raise BoundsError(
            f"{name} {text} is no host of the lab's air network {AIR}",
            hint="this program sends to the lab's own two endpoints and to nothing else",
        )
    return str(address)


def from_environment(environment: Mapping[str, str]) -> Addresses:
    """The four addresses. Raises BoundsError where one is missing, outside air, or given twice."""
    found = {}
    for name in ("here", "drone", "gcs", "link"):
        variable = f"PQATTACK_{name.upper()}"
        value = environment.get(variable)
        if not value:
            raise BoundsError(f"{variable} is not set", hint="compose/lab.yml sets it")
        found[name] = inside(variable, value)
    if len(set(found.values())) != len(found):
        raise BoundsError("two of the addresses are one and the same", hint="compose/lab.yml has four")
    return Addresses(**found)
