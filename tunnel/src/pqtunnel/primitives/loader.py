"""The primitives of this host, made on first use and kept: creating a liboqs object in every handshake would
cost more than an ML-KEM encapsulation."""

from __future__ import annotations

import functools

from pqtunnel.primitives.aead_provider import make_aead
from pqtunnel.primitives.classical import Ed25519Sig, HybridKem, X25519Kem
from pqtunnel.primitives.interfaces import AeadProvider, KemProvider, SigProvider
from pqtunnel.primitives.oqs_provider import OqsKem, OqsSig
from pqtunnel.suites import ALL_KEMS, ALL_SIGS


class HostPrimitives:
    """Providers by registry token. Each raises ProviderMissing when this host lacks it."""

    def __init__(self) -> None:
        self._kems: dict[str, KemProvider] = {}
        self._sigs: dict[str, SigProvider] = {}
        self._aeads: dict[str, AeadProvider] = {}

    def kem(self, token: str) -> KemProvider:
        provider = self._kems.get(token)
        if provider is None:
            provider = self._kems[token] = self._make_kem(token)
        return provider

    def _make_kem(self, token: str) -> KemProvider:
        kem = ALL_KEMS[token]
        if kem.family == "x25519":
            return X25519Kem()
        if kem.family == "hybrid":
            return HybridKem(kem, self.kem("x25519"), self.kem(token.removeprefix("x25519")))
        return OqsKem(kem)

    def sig(self, token: str) -> SigProvider:
        provider = self._sigs.get(token)
        if provider is None:
            sig = ALL_SIGS[token]
            provider = self._sigs[token] = Ed25519Sig(sig) if sig.family == "ed25519" else OqsSig(sig)
        return provider

    def aead(self, token: str) -> AeadProvider:
        provider = self._aeads.get(token)
        if provider is None:
            provider = self._aeads[token] = make_aead(token)
        return provider


@functools.cache
def load() -> HostPrimitives:
    """The one set of providers of this process. Nothing native is loaded before the first primitive is asked
    for; a missing library raises ProviderMissing then, with what to do."""
    return HostPrimitives()
