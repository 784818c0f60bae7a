"""The handshake as two sans-IO state machines; docs/PROTOCOL.md is its description in prose.

GCS                                   drone
 Challenge          ────────────────▶
                    ◀────────────────  Hello (PSK MAC)
 ServerHello (sig)  ────────────────▶
                    ◀────────────────  ClientKem + FinishedDrone (PSK MAC)
 FinishedGcs        ────────────────▶
"""

from pqtunnel.handshake.drone import DroneHandshake
from pqtunnel.handshake.established import Established, TrafficKeys
from pqtunnel.handshake.gcs import GcsHandshake
from pqtunnel.handshake.identity import (
    DronePsk,
    DronePublicIdentity,
    GcsIdentity,
    GcsPublicIdentity,
    PskStore,
)
from pqtunnel.handshake.limits import HandshakeLimits
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom

__all__ = [
    "DroneHandshake",
    "DronePsk",
    "DronePublicIdentity",
    "Established",
    "GcsHandshake",
    "GcsIdentity",
    "GcsPublicIdentity",
    "HandshakeLimits",
    "PskStore",
    "RekeyBasis",
    "RekeyFrom",
    "TrafficKeys",
]
