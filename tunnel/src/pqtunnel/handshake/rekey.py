"""What a rekey stands on: the live epoch it replaces, as each end keeps it. In memory only."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field

from pqtunnel.errors import KeyMaterialError
from pqtunnel.wire import DRONE_ID_BYTES, SECRET_BYTES, SESSION_ID_BYTES


@dataclass(frozen=True, slots=True)
class RekeyBasis:
    """At the GCS, found by session id: whose session it is, its epoch, and the secret it left for its
    successor. Raises KeyMaterialError on wrong lengths."""

    drone_id: bytes
    epoch: int
    rekey_secret: Sized = field(repr=False)
    """Bytes, or the handle of a native secret."""

    def __post_init__(self) -> None:
        _expect("drone key id", self.drone_id, DRONE_ID_BYTES)
        _expect("rekey secret", self.rekey_secret, SECRET_BYTES)


@dataclass(frozen=True, slots=True)
class RekeyFrom:
    """At the drone: the session to replace. Raises KeyMaterialError on wrong lengths; a session id of zeros
    means "none" on the wire and is refused too."""

    session_id: bytes
    epoch: int
    rekey_secret: Sized = field(repr=False)
    """Bytes, or the handle of a native secret."""

    def __post_init__(self) -> None:
        _expect("session id", self.session_id, SESSION_ID_BYTES)
        _expect("rekey secret", self.rekey_secret, SECRET_BYTES)
        if not any(self.session_id):
            raise KeyMaterialError("a session id of zeros names no session")


def _expect(what: str, value: Sized, size: int) -> None:
    # An empty secret would mix nothing and pass unnoticed: the lengths are part of the security.
    if len(value) != size:
        raise KeyMaterialError(f"a {what} has {size} bytes, not {len(value)}")
