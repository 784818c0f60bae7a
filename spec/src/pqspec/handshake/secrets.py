"""Secrets of an epoch, as the handshake makes them and as each end uses them."""

from __future__ import annotations

from collections.abc import Sized

from pqspec.keyschedule import EpochSecrets, PskKeys, derive_epoch
from pqtunnel.errors import KeyMaterialError
from pqtunnel.handshake.established import Role, TrafficKeys
from pqtunnel.handshake.identity import Secret
from pqtunnel.primitives.interfaces import wipe
from pqtunnel.suites import Suite


def epoch_secrets(
    suite: Suite, psk_keys: PskKeys, shared_secret: bytearray, transcript: bytes, old_rekey_secret: bytes
) -> EpochSecrets:
    """The key schedule under a suite. `shared_secret` is what its KEM gave (hybrids: X25519's part first) and
    is erased here; `old_rekey_secret` is empty outside a rekey."""
    split = suite.kem.x25519_bytes
    x25519, kem = shared_secret[:split], shared_secret[split:]
    try:
        return derive_epoch(
            psk_keys,
            kem,
            transcript,
            suite.aead.key_bytes,
            suite.aead.nonce_bytes,
            x25519_secret=x25519,
            old_rekey_secret=old_rekey_secret,
        )
    finally:
        for secret in (shared_secret, x25519, kem):
            wipe(secret)


def traffic_keys(secrets: EpochSecrets, role: Role) -> TrafficKeys:
    """Sort the two directions into send and receive."""
    mine, theirs = (secrets.drone, secrets.gcs) if role == "drone" else (secrets.gcs, secrets.drone)
    return TrafficKeys(mine.key, mine.iv, theirs.key, theirs.iv)


def clear(secret: Secret) -> bytes:
    """A long-term secret as the specification uses it. Raises KeyMaterialError where its file cannot be
    read."""
    if isinstance(secret, bytes):
        return secret
    try:
        return secret.path.read_bytes()
    except OSError as error:
        raise KeyMaterialError(f"{secret.path} cannot be read: {error.strerror or error}") from error


def in_clear(secret: Sized) -> bytes:
    """A rekey secret as the specification uses it. Raises KeyMaterialError for a native one, which nobody
    reads."""
    if not isinstance(secret, bytes):
        raise KeyMaterialError("a native session is rekeyed by a native handshake")
    return secret
