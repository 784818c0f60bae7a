"""Interfaces between the protocol and the libraries that carry out its primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class KemKeyPair:
    """An ephemeral KEM key pair. `secret` is mutable so that `wipe` can erase it in place."""

    __slots__ = ("public", "secret")

    def __init__(self, public: bytes, secret: bytearray) -> None:
        self.public = public
        self.secret = secret

    def wipe(self) -> None:
        """Overwrite the secret key with zeros; the pair cannot decapsulate afterwards."""
        wipe(self.secret)


def wipe(secret: bytearray) -> None:
    """Overwrite a secret in place. Copies that a library made meanwhile are beyond its reach."""
    secret[:] = bytes(len(secret))


class KemProvider(Protocol):
    """One KEM. Implementations keep no state between calls and may be shared between threads."""

    def generate(self) -> KemKeyPair:
        """A fresh key pair. Raises PrimitiveFailed."""

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        """(ciphertext, shared secret) for a public key of the registry's size. Raises PrimitiveFailed."""

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        """The shared secret for a ciphertext of the registry's size. Raises PrimitiveFailed."""


class SigProvider(Protocol):
    """One signature scheme; stateless and shareable like a KEM."""

    def generate(self) -> tuple[bytes, bytes]:
        """(public key, secret key). Raises PrimitiveFailed."""

    def sign(self, secret: bytes, message: bytes) -> bytes:
        """A signature of at most the registry's size. Raises PrimitiveFailed."""

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        """True when the signature fits; False for everything else, malformed input included."""


class AeadKey:
    """One AEAD key. `seal` and `open` are the library's own bound methods, so that a packet pays no wrapper.

    seal(nonce, plaintext, aad) -> ciphertext || tag; open(nonce, sealed, aad) -> plaintext, raising
    `invalid_tag`.
    """

    __slots__ = ("invalid_tag", "open", "seal")

    def __init__(
        self,
        seal: Callable[[bytes, bytes, bytes], bytes],
        open: Callable[[bytes, bytes, bytes], bytes],
        invalid_tag: type[Exception],
    ) -> None:
        self.seal = seal
        self.open = open
        self.invalid_tag = invalid_tag


class AeadProvider(Protocol):
    """One AEAD algorithm."""

    def new(self, key: bytes) -> AeadKey:
        """A key object for a key of the registry's size. Raises KeyMaterialError on another size."""


class Primitives(Protocol):
    """The primitives of this host, by registry token. Raises ProviderMissing for one that is not usable
    here."""

    def kem(self, token: str) -> KemProvider: ...

    def sig(self, token: str) -> SigProvider: ...

    def aead(self, token: str) -> AeadProvider: ...
