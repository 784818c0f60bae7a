"""Every cryptographic primitive the tunnel uses, behind three small interfaces.

`load()` is the one door to native code; everything above it takes a `Primitives` as a parameter, so that the
protocol can be driven with test doubles and with captured randomness.
"""

from pqtunnel.primitives.interfaces import (
    AeadKey,
    AeadProvider,
    KemKeyPair,
    KemProvider,
    Primitives,
    SigProvider,
)
from pqtunnel.primitives.loader import load
from pqtunnel.primitives.providers import provider_facts

__all__ = [
    "AeadKey",
    "AeadProvider",
    "KemKeyPair",
    "KemProvider",
    "Primitives",
    "SigProvider",
    "load",
    "provider_facts",
]
