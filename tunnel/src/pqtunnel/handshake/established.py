"""What a completed handshake hands to the data plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pqtunnel.keyschedule import EpochSecrets
from pqtunnel.suites import Suite

Role = Literal["drone", "gcs"]


@dataclass(frozen=True, slots=True, repr=False)
class TrafficKeys:
    """Keys of one epoch from one end's point of view."""

    send_key: bytes
    send_iv: bytes
    receive_key: bytes
    receive_iv: bytes


@dataclass(frozen=True, slots=True)
class Established:
    """One authenticated epoch. `rx_index` is the index this end chose, `tx_index` the one the peer chose."""

    role: Role
    suite: Suite
    epoch: int
    session_id: bytes
    peer_key_id: bytes
    handshake_id: str
    rx_index: int
    tx_index: int
    keys: TrafficKeys
    rekey_secret: bytes
    exporter: bytes

    def __repr__(self) -> str:
        # Keys must never reach a log through a stray %r.
        return f"Established({self.role}, {self.suite.id}, epoch={self.epoch}, id={self.handshake_id})"


def traffic_keys(secrets: EpochSecrets, role: Role) -> TrafficKeys:
    """Sort the two directions into send and receive."""
    mine, theirs = (secrets.drone, secrets.gcs) if role == "drone" else (secrets.gcs, secrets.drone)
    return TrafficKeys(mine.key, mine.iv, theirs.key, theirs.iv)
