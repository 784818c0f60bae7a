"""The handshake as two sans-IO state machines; docs/PROTOCOL.md is its description in prose.

GCS                                   drone
 Challenge          ────────────────▶
                    ◀────────────────  Hello (PSK MAC)
 ServerHello (sig)  ────────────────▶
                    ◀────────────────  ClientKem + FinishedDrone (PSK MAC)
 FinishedGcs        ────────────────▶
"""

from pqspec.handshake.drone import DroneHandshake
from pqspec.handshake.gcs import GcsHandshake
from pqspec.handshake.psks import PskStore

__all__ = ["DroneHandshake", "GcsHandshake", "PskStore"]
