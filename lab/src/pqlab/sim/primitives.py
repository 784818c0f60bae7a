"""Stand-ins for KEM, signature and AEAD: right sizes, right answers, no security, an invented cost.

They make the protocol machinery run without a native library and without chance. A stand-in costs virtual
time that grows with its sizes; the figures are a model's, and say nothing about any algorithm's speed.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable

from pqtunnel.primitives.interfaces import AeadKey, KemKeyPair
from pqtunnel.suites import AEADS, KEMS, SIGS, Aead, Kem, Sig

Spend = Callable[[int], None]
_SEED_BYTES = 32
#: invented cost: a constant, and so much for every byte the operation makes or reads
BASE_NS, BYTE_NS = 20_000, 12


class InvalidTag(Exception):
    """The stand-in AEAD refused a datagram."""


def _stream(label: str, length: int, *parts: bytes | bytearray) -> bytes:
    digest = hashlib.shake_256(label.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest(length)


class SimKem:
    """Encapsulation sends 32 random bytes in clear; both ends hash them with the public key."""

    def __init__(self, kem: Kem, draw: Callable[[int], bytes], spend: Spend) -> None:
        self._kem, self._draw, self._spend = kem, draw, spend

    def generate(self) -> KemKeyPair:
        kem = self._kem
        self._spend(BASE_NS + BYTE_NS * (kem.public_key_bytes + kem.secret_key_bytes) // 2)
        seed = self._draw(_SEED_BYTES)
        public = _stream("public", kem.public_key_bytes, seed)
        return KemKeyPair(public, bytearray(_stream("secret", kem.secret_key_bytes, seed)))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        self._spend(BASE_NS + BYTE_NS * (len(public) // 8 + self._kem.ciphertext_bytes))
        seed = self._draw(_SEED_BYTES)
        padding = _stream("padding", self._kem.ciphertext_bytes - _SEED_BYTES, public, seed)
        return seed + padding, self._secret(public, seed)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self._spend(BASE_NS + BYTE_NS * (len(pair.secret) // 8 + len(ciphertext)))
        return self._secret(pair.public, ciphertext[:_SEED_BYTES])

    def _secret(self, public: bytes, seed: bytes) -> bytearray:
        return bytearray(_stream("shared", self._kem.shared_secret_bytes, public, seed))


class SimSig:
    """A signature is a hash of public key and message: anyone could make one."""

    def __init__(self, sig: Sig, draw: Callable[[int], bytes], spend: Spend) -> None:
        self._sig, self._draw, self._spend = sig, draw, spend

    def generate(self) -> tuple[bytes, bytes]:
        secret = self._draw(self._sig.secret_key_bytes)
        return self._public(secret), secret

    def sign(self, secret: bytes, message: bytes) -> bytes:
        self._spend(2 * BASE_NS + BYTE_NS * self._sig.signature_bytes)
        return self._make(self._public(secret), message)

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        self._spend(BASE_NS + BYTE_NS * self._sig.signature_bytes // 4)
        return hmac.compare_digest(signature, self._make(public, message))

    def _public(self, secret: bytes) -> bytes:
        return _stream("verifying", self._sig.public_key_bytes, secret)

    def _make(self, public: bytes, message: bytes) -> bytes:
        length = self._sig.signature_bytes
        if self._sig.variable_length:
            length -= _stream("length", 1, public, message)[0] % 16
        return _stream("signature", length, public, message)


class SimAead:
    """Key stream and tag from hashes."""

    def __init__(self, aead: Aead) -> None:
        self._aead = aead

    def new(self, key: bytes) -> AeadKey:
        tag_bytes = self._aead.tag_bytes

        def mask(nonce: bytes, text: bytes) -> bytes:
            stream = hashlib.shake_128(key + nonce).digest(len(text))
            return (int.from_bytes(text, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(text), "big")

        def tag(nonce: bytes, body: bytes, aad: bytes) -> bytes:
            return hashlib.blake2b(nonce + aad + body, key=key, digest_size=tag_bytes).digest()

        def seal(nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
            body = mask(nonce, plaintext)
            return body + tag(nonce, body, aad)

        def open_(nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
            body, told = sealed[:-tag_bytes], sealed[-tag_bytes:]
            if not hmac.compare_digest(told, tag(nonce, body, aad)):
                raise InvalidTag
            return mask(nonce, body)

        return AeadKey(seal, open_, InvalidTag)


class SimPrimitives:
    """All stand-ins of one cell; `spend` lets virtual time pass, stretched by `pace` and by ± 2 % noise."""

    def __init__(self, rng: random.Random, spend: Spend, pace: float = 1.0) -> None:
        self._rng, self._spend, self._pace = rng, spend, pace

    def _cost(self, nominal_ns: int) -> None:
        self._spend(round(nominal_ns * self._pace * self._rng.lognormvariate(0.0, 0.02)))

    def kem(self, token: str) -> SimKem:
        return SimKem(KEMS[token], self._rng.randbytes, self._cost)

    def sig(self, token: str) -> SimSig:
        return SimSig(SIGS[token], self._rng.randbytes, self._cost)

    def aead(self, token: str) -> SimAead:
        return SimAead(AEADS[token])
