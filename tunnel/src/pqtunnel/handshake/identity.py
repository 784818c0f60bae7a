"""Long-term identities: what each end holds before the first handshake.

A GCS has one signing key pair for each signature scheme it offers; the hash over all its public keys is
both its key id on the wire and the pin at the drone. A drone has an opaque 8-byte key id and a 32-byte PSK.

In scope: their form, hash and lookup. Not in scope: files, modes and making of keys (`pqtunnel.keys`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pqtunnel.errors import KeyMaterialError
from pqtunnel.suites import ALL_SIGS
from pqtunnel.wire import DRONE_ID_BYTES, GCS_ID_BYTES, PSK_BYTES, prefixed


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A long-term secret where it lies. The native tunnel reads it into memory of its own: Python never
    holds its bytes, which it could not erase."""

    path: Path
    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


Secret = bytes | SecretFile
"""Its bytes, where it was just made or is a test's; else the file that has them."""

_ID_CONTEXT: Final = b"pqtunnel/1 GCS identity\x00"
SCHEMA: Final = "pqtunnel/gcs-public/v1"
DRONE_SCHEMA: Final = "pqtunnel/drone-public/v1"


@dataclass(frozen=True, slots=True)
class GcsPublicIdentity:
    """Public keys of one GCS by SIG token, and their hash. Raises KeyMaterialError when a key does not
    fit."""

    keys: Mapping[str, bytes]
    key_id: bytes = field(init=False)
    """32 bytes: SHA-512 over context and, in order of SIG code, code ‖ LP(public key), truncated. Computed
    once: 10 kB of keys would else be hashed in every handshake, at both ends."""

    def __post_init__(self) -> None:
        if not self.keys:
            raise KeyMaterialError("a GCS identity needs at least one signing key")
        _check_public(self.keys, "GCS")
        object.__setattr__(self, "keys", MappingProxyType(dict(self.keys)))
        object.__setattr__(self, "key_id", self._hash())

    def _hash(self) -> bytes:
        digest = hashlib.sha512(_ID_CONTEXT)
        for token in sorted(self.keys, key=lambda name: ALL_SIGS[name].code):
            digest.update(bytes((ALL_SIGS[token].code,)) + prefixed(self.keys[token]))
        return digest.digest()[:GCS_ID_BYTES]

    def to_json(self) -> dict[str, object]:
        """JSON form: schema, key_id (hex) and keys (hex)."""
        return {
            "schema": SCHEMA,
            "key_id": self.key_id.hex(),
            "keys": {token: key.hex() for token, key in sorted(self.keys.items())},
        }

    @classmethod
    def from_json(cls, document: object) -> GcsPublicIdentity:
        """Inverse of `to_json`; checks that the stated key id is the hash of the keys. Raises
        KeyMaterialError."""
        try:
            if not isinstance(document, dict):
                raise TypeError(f"{type(document).__name__} is no object")
            if document["schema"] != SCHEMA:
                raise KeyMaterialError(f"not a GCS identity: schema {document['schema']!r}")
            identity = cls({str(token): bytes.fromhex(key) for token, key in document["keys"].items()})
            stated = bytes.fromhex(document["key_id"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KeyMaterialError(f"malformed GCS identity ({error!r})") from error
        if stated != identity.key_id:
            raise KeyMaterialError("the key id of the GCS identity is not the hash of its keys")
        return identity


@dataclass(frozen=True, slots=True)
class DronePublicIdentity:
    """A drone's registered public signing keys by SIG token. Raises KeyMaterialError when a key does not
    fit."""

    drone_id: bytes
    keys: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if len(self.drone_id) != DRONE_ID_BYTES:
            raise KeyMaterialError(f"a drone key id has {DRONE_ID_BYTES} bytes, not {len(self.drone_id)}")
        _check_public(self.keys, "drone")

    def to_json(self) -> dict[str, object]:
        """JSON form: schema, drone_id (hex) and keys (hex)."""
        return {
            "schema": DRONE_SCHEMA,
            "drone_id": self.drone_id.hex(),
            "keys": {token: key.hex() for token, key in sorted(self.keys.items())},
        }

    @classmethod
    def from_json(cls, document: object) -> DronePublicIdentity:
        """Inverse of `to_json`. Raises KeyMaterialError."""
        try:
            if not isinstance(document, dict):
                raise TypeError(f"{type(document).__name__} is no object")
            if document["schema"] != DRONE_SCHEMA:
                raise KeyMaterialError(f"not a drone identity: schema {document['schema']!r}")
            keys = {str(token): bytes.fromhex(key) for token, key in document["keys"].items()}
            return cls(bytes.fromhex(document["drone_id"]), keys)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KeyMaterialError(f"malformed drone identity ({error!r})") from error


def _check_public(keys: Mapping[str, bytes], whose: str) -> None:
    for token, key in keys.items():
        if token not in ALL_SIGS:
            raise KeyMaterialError(f"unknown signature scheme {token!r} in a {whose} identity")
        scheme = ALL_SIGS[token]
        if len(key) != scheme.public_key_bytes:
            raise KeyMaterialError(
                f"{scheme.name} public key has {len(key)} bytes, not {scheme.public_key_bytes}"
            )


@dataclass(frozen=True, slots=True)
class GcsIdentity:
    """A GCS's own identity. `secrets` holds the signing key of every scheme in `public`."""

    public: GcsPublicIdentity
    secrets: Mapping[str, Secret]

    def __post_init__(self) -> None:
        if set(self.secrets) != set(self.public.keys):
            raise KeyMaterialError("public and secret signing keys are not for the same schemes")
        for token, key in self.secrets.items():
            if len(key) != ALL_SIGS[token].secret_key_bytes:
                raise KeyMaterialError(
                    f"{ALL_SIGS[token].name} secret key has {len(key)} bytes, "
                    f"not {ALL_SIGS[token].secret_key_bytes}"
                )

    def __repr__(self) -> str:
        return f"GcsIdentity({self.public.key_id.hex()[:16]}…)"


@dataclass(frozen=True, slots=True)
class DronePsk:
    """A drone's key id and PSK. Raises KeyMaterialError on wrong lengths."""

    key_id: bytes
    psk: Secret

    def __post_init__(self) -> None:
        if len(self.key_id) != DRONE_ID_BYTES:
            raise KeyMaterialError(f"a drone key id has {DRONE_ID_BYTES} bytes, not {len(self.key_id)}")
        if len(self.psk) != PSK_BYTES:
            raise KeyMaterialError(f"a PSK has {PSK_BYTES} bytes, not {len(self.psk)}")

    def __repr__(self) -> str:
        return f"DronePsk({self.key_id.hex()})"
