"""Stand-ins for the primitives: right sizes, deterministic from a seed, no security at all.

A simulation asks what the protocol does, not what mathematics does. The AEAD also keeps the rule that real
ones rely on: it raises when one key seals two packets under one nonce.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from pqtunnel.errors import TunnelError
from pqtunnel.primitives.interfaces import AeadKey, KemKeyPair
from pqtunnel.suites import AEADS, KEMS, SIGS

Rng = Callable[[int], bytes]


class InvariantBroken(TunnelError):
    """The simulated protocol did what it must never do."""

    code = "invariant_broken"
    hint = "run the same seed again under a debugger: it takes the same way"


def stream(seed: bytes, count: int) -> bytes:
    """`count` bytes that depend on `seed` alone."""
    return hashlib.shake_256(seed).digest(count)


class SeededRng:
    """Bytes from a seed: each call continues one stream."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return stream(self._seed + self._calls.to_bytes(8, "big"), count)


class _Kem:
    def __init__(self, token: str, rng: Rng) -> None:
        self._kem, self._rng = KEMS[token], rng

    def _public(self, secret: bytes) -> bytes:
        return stream(b"public" + secret, self._kem.public_key_bytes)

    def _secret(self, public: bytes, ciphertext: bytes) -> bytearray:
        return bytearray(stream(public + ciphertext, self._kem.shared_secret_bytes))

    def generate(self) -> KemKeyPair:
        secret = self._rng(self._kem.secret_key_bytes)
        return KemKeyPair(self._public(secret), bytearray(secret))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        ciphertext = self._rng(self._kem.ciphertext_bytes)
        return ciphertext, self._secret(public, ciphertext)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        return self._secret(self._public(bytes(pair.secret)), ciphertext)


class _Sig:
    def __init__(self, token: str, rng: Rng) -> None:
        self._sig, self._rng = SIGS[token], rng

    def _public(self, secret: bytes) -> bytes:
        return stream(b"public" + secret, self._sig.public_key_bytes)

    def generate(self) -> tuple[bytes, bytes]:
        secret = self._rng(self._sig.secret_key_bytes)
        return self._public(secret), secret

    def sign(self, secret: bytes, message: bytes) -> bytes:
        return stream(self._public(secret) + message, self._sig.signature_bytes)

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        return stream(public + message, self._sig.signature_bytes) == signature


class _WrongTag(Exception):
    """The tag does not fit."""


class _Aead:
    def __init__(self, token: str, sealed: set[tuple[bytes, bytes]]) -> None:
        self._aead = AEADS[token]
        self._sealed = sealed

    def new(self, key: bytes) -> AeadKey:
        tag_bytes = self._aead.tag_bytes

        def tag(nonce: bytes, body: bytes, aad: bytes) -> bytes:
            return hmac.digest(key, nonce + aad + body, "sha256")[:tag_bytes]

        def mask(nonce: bytes, body: bytes) -> bytes:
            key_stream = int.from_bytes(stream(key + nonce, len(body)), "big")
            return (int.from_bytes(body, "big") ^ key_stream).to_bytes(len(body), "big")

        def seal(nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
            if (key, nonce) in self._sealed:
                raise InvariantBroken(f"nonce {nonce.hex()} was used twice under one key")
            self._sealed.add((key, nonce))
            body = mask(nonce, plaintext)
            return body + tag(nonce, body, aad)

        def open_(nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
            body = sealed[:-tag_bytes]
            if tag(nonce, body, aad) != sealed[-tag_bytes:]:
                raise _WrongTag
            return mask(nonce, body)

        return AeadKey(seal, open_, _WrongTag)


class SimulatedPrimitives:
    """`Primitives` of one simulation; both ends share it, so that a nonce counts for both."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._sealed: set[tuple[bytes, bytes]] = set()

    def kem(self, token: str) -> _Kem:
        """Raises KeyError for a token outside the registry."""
        return _Kem(token, self._rng)

    def sig(self, token: str) -> _Sig:
        """Raises KeyError for a token outside the registry."""
        return _Sig(token, self._rng)

    def aead(self, token: str) -> _Aead:
        """Raises KeyError for a token outside the registry."""
        return _Aead(token, self._sealed)
