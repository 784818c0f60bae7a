"""What this package may ever do: to which addresses, how fast, for how long. Constants, not settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pqattack.errors import BoundsError

#: air networks of the labs that a machine may have (1 to 4), of the benchmark range (RFC 2544) that is
#: nobody's LAN: nothing is sent anywhere but within the one that the sender itself is in
AIRS: Final = tuple(ipaddress.IPv4Network(f"198.18.{lab}2.0/24") for lab in ("", 2, 3, 4))
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


def air_of(address: ipaddress.IPv4Address) -> ipaddress.IPv4Network | None:
    """The lab's air network that an address is in; None for any other address."""
    return next((air for air in AIRS if address in air), None)


def inside(name: str, text: str) -> str:
    """`text` when it is a host address of a lab's air network. Raises BoundsError."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise BoundsError(f"{name} is not an IPv4 address: {text!r}") from error
    air = air_of(address)
    if air is None or address in (air.network_address, air.broadcast_address):
        raise BoundsError(
            f"{name} {text} is no host of a lab's air network ({', '.join(map(str, AIRS))})",
            hint="this program sends to the lab's own two endpoints and to nothing else",
        )
    return str(address)


def from_environment(environment: Mapping[str, str]) -> Addresses:
    """The four addresses. Raises BoundsError where one is missing, outside air or another lab's, or given
    twice."""
    found = {}
    for name in ("here", "drone", "gcs", "link"):
        variable = f"PQATTACK_{name.upper()}"
        value = environment.get(variable)
        if not value:
            raise BoundsError(f"{variable} is not set", hint="compose/lab.yml sets it")
        found[name] = inside(variable, value)
    if len(set(found.values())) != len(found):
        raise BoundsError("two of the addresses are one and the same", hint="compose/lab.yml has four")
    if len({air_of(ipaddress.IPv4Address(text)) for text in found.values()}) != 1:
        raise BoundsError(
            "the addresses are of more than one lab", hint="an attacker reaches its own lab alone"
        )
    return Addresses(**found)
