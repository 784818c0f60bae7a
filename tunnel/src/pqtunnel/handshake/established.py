"""What a completed handshake hands to the data plane, and the epochs that are made by hand: plain mode,
known answers."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Literal, Protocol

from pqtunnel.suites import Suite

Role = Literal["drone", "gcs"]


class Epoch(Protocol):
    """One authenticated epoch as the endpoint handles it, whoever made it: a session takes it in, the book
    keeps what a rekey needs."""

    @property
    def role(self) -> Role: ...

    @property
    def suite_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def session_id(self) -> bytes: ...

    @property
    def peer_key_id(self) -> bytes: ...

    @property
    def handshake_id(self) -> str: ...

    @property
    def rx_index(self) -> int: ...

    @property
    def rekey_secret(self) -> Sized: ...


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

    @property
    def suite_id(self) -> str:
        """Of the suite."""
        return self.suite.id

    def __repr__(self) -> str:
        # Keys must never reach a log through a stray %r.
        return f"Established({self.role}, {self.suite.id}, epoch={self.epoch}, id={self.handshake_id})"


def plain_epoch(role: Role, suite: Suite) -> Established:
    """The one epoch of the `plain` mode: no keys, fixed indices, nothing to rekey from."""
    return Established(
        role=role,
        suite=suite,
        epoch=0,
        session_id=bytes(16),
        peer_key_id=b"",
        handshake_id="",
        rx_index=1,
        tx_index=1,
        keys=TrafficKeys(b"", b"", b"", b""),
        rekey_secret=b"",
        exporter=b"",
    )
