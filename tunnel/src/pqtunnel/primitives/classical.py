"""X25519 and Ed25519 by `cryptography`, and the hybrid of X25519 with a KEM of liboqs.

X25519 as a KEM: the public key is the receiver's ephemeral one, the ciphertext the sender's, the shared
secret RFC 7748's. It binds neither to the secret: the key schedule does, through the transcript.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pqtunnel.errors import PrimitiveFailed, ProviderMissing
from pqtunnel.primitives.interfaces import KemKeyPair, KemProvider, wipe
from pqtunnel.suites import Kem, Sig

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_BYTES: Final = 32


@contextlib.contextmanager
def _needed_by(needed_by: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ProviderMissing(f"{needed_by}: the package cryptography is not usable ({error})") from error


class X25519Kem:
    """RFC 7748 §6.1 in the form of a KEM. Raises ProviderMissing without `cryptography`."""

    def __init__(self, name: str = "X25519") -> None:
        with _needed_by(name):
            from cryptography.hazmat.primitives.asymmetric import x25519
        self._private = x25519.X25519PrivateKey
        self._public = x25519.X25519PublicKey

    def generate(self) -> KemKeyPair:
        private = self._private.generate()
        return KemKeyPair(private.public_key().public_bytes_raw(), bytearray(private.private_bytes_raw()))

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        _expect("public key", public)
        ephemeral = self._private.generate()
        return ephemeral.public_key().public_bytes_raw(), self._exchange(ephemeral, public)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        _expect("ciphertext", ciphertext)
        _expect("secret key", pair.secret)
        return self._exchange(self._private.from_private_bytes(pair.secret), ciphertext)

    def _exchange(self, private: X25519PrivateKey, public: bytes) -> bytearray:
        try:
            return bytearray(private.exchange(self._public.from_public_bytes(public)))
        except ValueError as error:  # a point of small order: the secret would be zero, RFC 7748 §6.1
            raise PrimitiveFailed("X25519: the peer's value has small order") from error


class HybridKem:
    """X25519 ‖ KEM, component by component: public key, secret key, ciphertext and shared secret are each the
    X25519 part followed by the KEM's. Combining the two secrets is the key schedule's work."""

    def __init__(self, kem: Kem, classical: KemProvider, inner: KemProvider) -> None:
        self._kem = kem
        self._classical = classical
        self._inner = inner

    def generate(self) -> KemKeyPair:
        left = self._classical.generate()
        try:
            right = self._inner.generate()
            return KemKeyPair(left.public + right.public, _joined(left.secret, right.secret))
        finally:
            left.wipe()  # also where the KEM fails

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        self._check("public key", public, self._kem.public_key_bytes)
        left_text, left = self._classical.encapsulate(public[:_BYTES])
        try:
            right_text, right = self._inner.encapsulate(public[_BYTES:])
            return left_text + right_text, _joined(left, right)
        finally:
            wipe(left)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self._check("ciphertext", ciphertext, self._kem.ciphertext_bytes)
        self._check("secret key", pair.secret, self._kem.secret_key_bytes)
        halves = [
            KemKeyPair(pair.public[:_BYTES], pair.secret[:_BYTES]),
            KemKeyPair(pair.public[_BYTES:], pair.secret[_BYTES:]),
        ]
        left = bytearray()
        try:
            left = self._classical.decapsulate(halves[0], ciphertext[:_BYTES])
            return _joined(left, self._inner.decapsulate(halves[1], ciphertext[_BYTES:]))
        finally:
            wipe(left)
            for half in halves:
                half.wipe()

    def _check(self, what: str, value: bytes | bytearray, size: int) -> None:
        if len(value) != size:
            raise PrimitiveFailed(f"{self._kem.name}: {what} has {len(value)} bytes, not {size}")


class Ed25519Sig:
    """RFC 8032 §5.1 (pure Ed25519). Raises ProviderMissing without `cryptography`."""

    def __init__(self, sig: Sig) -> None:
        with _needed_by(sig.name):
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric import ed25519
        self._sig = sig
        self._private = ed25519.Ed25519PrivateKey
        self._public = ed25519.Ed25519PublicKey
        self._invalid: type[Exception] = InvalidSignature

    def generate(self) -> tuple[bytes, bytes]:
        private = self._private.generate()
        return private.public_key().public_bytes_raw(), private.private_bytes_raw()

    def sign(self, secret: bytes, message: bytes) -> bytes:
        _expect("secret key", secret)
        return self._private.from_private_bytes(secret).sign(message)

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        if len(public) != self._sig.public_key_bytes or len(signature) != self._sig.signature_bytes:
            return False
        try:
            self._public.from_public_bytes(public).verify(signature, message)
        except (self._invalid, ValueError):
            return False
        return True


def _expect(what: str, value: bytes | bytearray) -> None:
    if len(value) != _BYTES:
        raise PrimitiveFailed(f"{what} has {len(value)} bytes, not {_BYTES}")


def _joined(left: bytearray, right: bytearray) -> bytearray:
    """Both in a buffer of its own; `right` is erased here, `left` by the caller, who had it first."""
    joined = left + right
    wipe(right)
    return joined
