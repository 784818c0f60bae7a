"""Key schedule: HKDF-SHA-512 (RFC 5869) from PSK and KEM secret to every key of an epoch.

    PRK0   = Extract(0^64, PSK)
    hello key           = Expand(PRK0, "hello mac", "")            checked before any public-key work
    drone finished key  = Expand(PRK0, "drone finished", "")       checked before decapsulation
    session unknown key = Expand(PRK0, "session unknown", "")      the one authenticated refusal
    MASTER = Extract(Expand(PRK0, "mix", ""), LP(KEM secret) || LP(X25519 secret) || LP(old rekey secret))
    everything else     = Expand(MASTER, label, TH2)

Absent inputs of MASTER are empty strings and still length-prefixed, so no two sets of inputs collide.
In scope: derivation. Not in scope: what TH2 covers (`handshake.transcript`).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from pqtunnel.wire import MAC_BYTES, PSK_BYTES, SECRET_BYTES, SESSION_ID_BYTES

HASH: Final = "sha512"
HASH_BYTES: Final = 64

_LABEL_PREFIX: Final = b"pqtunnel/1 "


def extract(salt: bytes, input_key: bytes | bytearray) -> bytes:
    """HKDF-Extract, RFC 5869 §2.2. Returns 64 bytes."""
    return hmac.digest(salt, input_key, HASH)


def expand(prk: bytes, label: str, context: bytes, length: int) -> bytes:
    """HKDF-Expand, RFC 5869 §2.3, for at most one block.

    info = u16(length) || u8(len(full label)) || full label || context, all integers big-endian.
    Raises ValueError above 64 bytes: no key of this protocol is longer.
    """
    if not 0 < length <= HASH_BYTES:
        raise ValueError(f"expand gives 1 to {HASH_BYTES} bytes, {length} asked")
    full_label = _LABEL_PREFIX + label.encode("ascii")
    info = length.to_bytes(2, "big") + bytes((len(full_label),)) + full_label + context
    return hmac.digest(prk, info + b"\x01", HASH)[:length]


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA-512 over the concatenation of `parts`, truncated to 32 bytes."""
    return hmac.digest(key, b"".join(parts), HASH)[:MAC_BYTES]


def mac_equal(left: bytes, right: bytes) -> bool:
    """Comparison whose time does not depend on where the inputs differ."""
    return hmac.compare_digest(left, right)


@dataclass(frozen=True, slots=True, repr=False)
class PskKeys:
    """What one PSK yields on its own; computed once for each PSK, not once for each handshake."""

    hello: bytes
    drone_finished: bytes
    session_unknown: bytes
    mix_salt: bytes

    @classmethod
    def derive(cls, psk: bytes) -> PskKeys:
        """From a 32-byte PSK. Raises ValueError on another length."""
        if len(psk) != PSK_BYTES:
            raise ValueError(f"a PSK has {PSK_BYTES} bytes, not {len(psk)}")
        prk0 = extract(bytes(HASH_BYTES), psk)
        return cls(
            hello=expand(prk0, "hello mac", b"", HASH_BYTES),
            drone_finished=expand(prk0, "drone finished", b"", HASH_BYTES),
            session_unknown=expand(prk0, "session unknown", b"", HASH_BYTES),
            mix_salt=expand(prk0, "mix", b"", HASH_BYTES),
        )


@dataclass(frozen=True, slots=True, repr=False)
class DirectionKeys:
    """Key and IV of one direction; lengths are the AEAD's key and nonce sizes."""

    key: bytes
    iv: bytes


@dataclass(frozen=True, slots=True, repr=False)
class EpochSecrets:
    """All that one handshake yields. `drone` and `gcs` name the sender."""

    gcs_finished: bytes
    drone: DirectionKeys
    gcs: DirectionKeys
    rekey_secret: bytes
    exporter: bytes
    session_id: bytes = field(repr=True)


def _prefixed(*values: bytes | bytearray) -> bytearray:
    """LP of each, one after another, in the one buffer that is returned: the caller overwrites it. Written
    through a view, because assigning bytes to a slice of a bytearray copies them first."""
    joined = bytearray(sum(4 + len(value) for value in values))
    end = 0
    with memoryview(joined) as view:
        for value in values:
            start = end + 4
            view[end:start] = len(value).to_bytes(4, "big")
            end = start + len(value)
            view[start:end] = value
    return joined


def derive_epoch(
    psk_keys: PskKeys,
    kem_secret: bytes | bytearray,
    transcript: bytes,
    key_bytes: int,
    iv_bytes: int,
    *,
    x25519_secret: bytes | bytearray = b"",
    old_rekey_secret: bytes = b"",
) -> EpochSecrets:
    """Secrets of one epoch under TH2 (`transcript`, 64 bytes). `x25519_secret` is empty outside hybrids,
    `old_rekey_secret` outside a rekey."""
    mixed = _prefixed(kem_secret, x25519_secret, old_rekey_secret)
    try:
        master = extract(psk_keys.mix_salt, mixed)
    finally:
        mixed[:] = bytes(len(mixed))
    return EpochSecrets(
        gcs_finished=expand(master, "gcs finished", transcript, HASH_BYTES),
        drone=DirectionKeys(
            expand(master, "drone key", transcript, key_bytes),
            expand(master, "drone iv", transcript, iv_bytes),
        ),
        gcs=DirectionKeys(
            expand(master, "gcs key", transcript, key_bytes), expand(master, "gcs iv", transcript, iv_bytes)
        ),
        rekey_secret=expand(master, "rekey", transcript, SECRET_BYTES),
        exporter=expand(master, "exporter", transcript, SECRET_BYTES),
        session_id=expand(master, "session id", transcript, SESSION_ID_BYTES),
    )
