"""AEADs: AES-256-GCM and ChaCha20-Poly1305 by `cryptography`, both Ascons by the native wheel `pq_ascon`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from pqtunnel.errors import KeyMaterialError, ProviderMissing
from pqtunnel.primitives.interfaces import AeadKey
from pqtunnel.suites import ALL_AEADS, Aead


def _expect_key(aead: Aead, key: bytes) -> None:
    if len(key) != aead.key_bytes:
        raise KeyMaterialError(f"{aead.name}: key has {len(key)} bytes, not {aead.key_bytes}")


class CryptographyAead:
    """AES-256-GCM (SP 800-38D) or ChaCha20-Poly1305 (RFC 8439). Raises ProviderMissing without
    `cryptography`."""

    def __init__(self, aead: Aead) -> None:
        try:
            from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
        except ImportError as error:
            raise ProviderMissing(f"{aead.name}: the package cryptography is not usable ({error})") from error
        self._aead = aead
        self._invalid_tag: type[Exception] = InvalidTag
        self._cipher: type[AESGCM | ChaCha20Poly1305] = AESGCM if aead.token == "aesgcm" else ChaCha20Poly1305
        try:
            self._cipher(bytes(aead.key_bytes))
        except UnsupportedAlgorithm as error:
            raise ProviderMissing(f"{aead.name}: not in this OpenSSL build ({error})") from error

    def new(self, key: bytes) -> AeadKey:
        _expect_key(self._aead, key)
        cipher = self._cipher(key)
        return AeadKey(cipher.encrypt, cipher.decrypt, self._invalid_tag)


class _AsconKey(Protocol):
    def seal(self, nonce: bytes, plaintext: bytes, aad: bytes, /) -> bytes: ...

    def open(self, nonce: bytes, sealed: bytes, aad: bytes, /) -> bytes: ...


_ASCON: Final = {"ascon128a": "Ascon128a", "asconaead128": "AsconAead128"}


class NativeAscon:
    """Ascon-128a by RustCrypto's ascon-aead 0.4.4, or Ascon-AEAD128 by its 0.6. Raises ProviderMissing
    without the wheel `pq_ascon`, or where it is too old for this algorithm."""

    def __init__(self, aead: Aead) -> None:
        try:
            import pq_ascon
        except ImportError as error:
            raise ProviderMissing(
                f"{aead.name}: the native wheel pq_ascon is not installed ({error})",
                hint="Run inside the tunnel image, or build tunnel/ascon-native with maturin.",
            ) from error
        self._aead = aead
        cipher: Callable[[bytes], _AsconKey] | None = getattr(pq_ascon, _ASCON[aead.token], None)
        self._invalid_tag: type[Exception] = pq_ascon.InvalidTag
        if cipher is None:
            raise ProviderMissing(
                f"{aead.name}: not in pq_ascon {pq_ascon.__version__}",
                hint="Build the images anew (make images): the wheel is older than this code.",
            )
        self._cipher = cipher

    def new(self, key: bytes) -> AeadKey:
        _expect_key(self._aead, key)
        cipher = self._cipher(key)
        return AeadKey(cipher.seal, cipher.open, self._invalid_tag)


def make_aead(token: str) -> CryptographyAead | NativeAscon:
    """The provider of an AEAD token of the registry. Raises ProviderMissing."""
    aead = ALL_AEADS[token]
    return NativeAscon(aead) if token in _ASCON else CryptographyAead(aead)
