"""The drone's real session, in Python and native, and packets for it made with the peer's keys or without."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from pqspec.session import Session
from pqtunnel import packet
from pqtunnel.handshake.established import Established, TrafficKeys
from pqtunnel.primitives import load
from pqtunnel.suites import get

SUITE = get("cs-mlkem768-aesgcm-mldsa65")
PRIMITIVES = load()
GCS_INDEX = 0x00ABCDEF


def index_of(epoch: int) -> int:
    """Receiver index of the drone in an epoch."""
    return (0x123456 + 0x01F00D * epoch) & 0xFF_FFFF


def keys_of(epoch: int) -> TrafficKeys:
    def material(name: str, size: int) -> bytes:
        return hashlib.shake_256(f"{epoch} {name}".encode()).digest(size)

    sizes = SUITE.aead.key_bytes, SUITE.aead.nonce_bytes
    return TrafficKeys(
        material("send", sizes[0]),
        material("send iv", sizes[1]),
        material("receive", sizes[0]),
        material("receive iv", sizes[1]),
    )


class Drone:
    """A drone's session that takes whatever the test throws at it."""

    def __init__(self, plane: str) -> None:
        self.counters: dict[str, int] = {}
        if plane == "python":
            self.session: Any = Session("drone", self.counters, PRIMITIVES)
        else:
            import pq_core

            self.session = pq_core.Session("drone")
        self.reasons: Counter[str] = Counter()
        self.opened: list[tuple[int, int, int]] = []

    def install(self, epoch: int, now_s: float) -> None:
        self.session.install(
            Established(
                role="drone",
                suite=SUITE,
                epoch=epoch,
                session_id=bytes(16),
                peer_key_id=bytes(8),
                handshake_id="00" * 8,
                rx_index=index_of(epoch),
                tx_index=GCS_INDEX,
                keys=keys_of(epoch),
                rekey_secret=bytes(32),
                exporter=bytes(32),
            ),
            int(now_s * 1e9),
        )

    def receive(self, datagram: bytes, now_s: float) -> str:
        """What became of it: a reason, or `open`."""
        got = self.session.receive(datagram, int(now_s * 1e9))
        told = got.reason or "open"
        self.reasons[told] += 1
        if not got.reason:
            self.opened.append((got.kind, got.epoch, got.sequence))
        return told


def seal(epoch: int, sequence: int, kind: int, size: int) -> bytes:
    """One packet as the peer seals it, `size` bytes in all."""
    keys = keys_of(epoch)
    header = packet.header(kind, epoch, index_of(epoch), sequence)
    nonce = (int.from_bytes(keys.receive_iv, "big") ^ sequence).to_bytes(SUITE.aead.nonce_bytes, "big")
    key = PRIMITIVES.aead(SUITE.aead.token).new(keys.receive_key)
    return header + key.seal(nonce, bytes(size - packet.OVERHEAD_BYTES), header)
