"""What a primitive costs in virtual time: invented, growing with its sizes, with noise from the cell's seed.

The primitives themselves are the protocol simulation's stand-ins: right sizes, right answers, no security.
The costs are a model's, and say nothing about any algorithm's speed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pqspec.simulation import SimulatedPrimitives
from pqtunnel.primitives.interfaces import AeadProvider, KemKeyPair, KemProvider, SigProvider
from pqtunnel.suites import KEMS, SIGS, Kem, Sig

Spend = Callable[[int], None]
#: a constant, and so much for every byte the operation makes or reads
BASE_NS, BYTE_NS = 20_000, 12


class CostlyKem:
    """A stand-in KEM whose operations take time."""

    def __init__(self, inner: KemProvider, kem: Kem, spend: Spend) -> None:
        self._inner, self._kem, self._spend = inner, kem, spend

    def generate(self) -> KemKeyPair:
        self._spend(BASE_NS + BYTE_NS * (self._kem.public_key_bytes + self._kem.secret_key_bytes) // 2)
        return self._inner.generate()

    def encapsulate(self, public: bytes) -> tuple[bytes, bytearray]:
        self._spend(BASE_NS + BYTE_NS * (self._kem.public_key_bytes // 8 + self._kem.ciphertext_bytes))
        return self._inner.encapsulate(public)

    def decapsulate(self, pair: KemKeyPair, ciphertext: bytes) -> bytearray:
        self._spend(BASE_NS + BYTE_NS * (self._kem.secret_key_bytes // 8 + self._kem.ciphertext_bytes))
        return self._inner.decapsulate(pair, ciphertext)


class CostlySig:
    """A stand-in signature scheme whose operations take time."""

    def __init__(self, inner: SigProvider, sig: Sig, spend: Spend) -> None:
        self._inner, self._sig, self._spend = inner, sig, spend

    def generate(self) -> tuple[bytes, bytes]:
        return self._inner.generate()

    def sign(self, secret: bytes, message: bytes) -> bytes:
        self._spend(2 * BASE_NS + BYTE_NS * self._sig.signature_bytes)
        return self._inner.sign(secret, message)

    def verify(self, public: bytes, message: bytes, signature: bytes) -> bool:
        self._spend(BASE_NS + BYTE_NS * self._sig.signature_bytes // 4)
        return self._inner.verify(public, message, signature)


class SimPrimitives:
    """All stand-ins of one cell; `spend` lets virtual time pass, stretched by `pace`, by the algorithm's own
    pace (`pace_of`) and by ± 2 % noise."""

    def __init__(
        self,
        rng: random.Random,
        spend: Spend,
        pace: float = 1.0,
        pace_of: Callable[[str], float] = lambda _token: 1.0,
    ) -> None:
        self._rng, self._spend, self._pace, self._pace_of = rng, spend, pace, pace_of
        self._inner = SimulatedPrimitives(rng.randbytes)

    def _cost_of(self, token: str) -> Spend:
        pace = self._pace * self._pace_of(token)

        def cost(nominal_ns: int) -> None:
            self._spend(round(nominal_ns * pace * self._rng.lognormvariate(0.0, 0.02)))

        return cost

    def kem(self, token: str) -> KemProvider:
        return CostlyKem(self._inner.kem(token), KEMS[token], self._cost_of(token))

    def sig(self, token: str) -> SigProvider:
        return CostlySig(self._inner.sig(token), SIGS[token], self._cost_of(token))

    def aead(self, token: str) -> AeadProvider:
        return self._inner.aead(token)
