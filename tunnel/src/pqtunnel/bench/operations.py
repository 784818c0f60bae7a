"""What is timed: KEM, signature, AEAD and full-suite operations, each made ready outside the timer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pqtunnel.bench.handshake import InMemoryHandshake
from pqtunnel.errors import PrimitiveFailed
from pqtunnel.primitives.interfaces import AeadKey, KemProvider, Primitives, SigProvider
from pqtunnel.suites import AEADS, KEMS, SIGS, SUITES, Suite

PAYLOADS_BYTES: Final = (64, 256, 1024, 4096)
_MESSAGE_BYTES: Final = 64
"""What the handshake signs is a 64-byte hash behind a context string."""
_AAD: Final = bytes(8)
"""A packet's header."""

Step = Callable[[], object]
"""One timed iteration."""


@dataclass(frozen=True)
class Benchmark:
    """One raw file. `prepare` builds a step outside the timer; a step prepared with `fresh` serves one
    iteration only (a key pair, a ciphertext), else all of them.

    category: kem, sig, aead, suites or ladder; published: in the set of `primitives-2026-01`.
    """

    category: str
    name: str
    algorithm: str
    operation: str
    prepare: Callable[[], Step]
    fresh: bool
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    published: bool = True
    expected_ms: float = 1.0

    @property
    def path(self) -> str:
        """Where its raw file lies under `raw/`."""
        return f"{self.category}/{self.name}.json"


def file_stem(algorithm: str) -> str:
    """ML-KEM-512 → ML_KEM_512, as the published raw tree spells its files."""
    return "".join(char if char.isalnum() else "_" for char in algorithm).strip("_")


# Milliseconds on the published board (primitives-2026-01 §5–6), rounded: only to order work and show an ETA
# before anything of this host has been measured.
_SLOW_MS: Final = {
    "classicmceliece348864.keygen": 350.0, "classicmceliece460896.keygen": 1100.0,
    "classicmceliece8192128.keygen": 8500.0, "classicmceliece348864.decapsulate": 55.0,
    "classicmceliece460896.decapsulate": 90.0, "classicmceliece8192128.decapsulate": 210.0,
    "hqc128.keygen": 22.0, "hqc128.encapsulate": 45.0, "hqc128.decapsulate": 73.0,
    "hqc192.keygen": 67.0, "hqc192.encapsulate": 135.0, "hqc192.decapsulate": 210.0,
    "hqc256.keygen": 124.0, "hqc256.encapsulate": 250.0, "hqc256.decapsulate": 390.0,
    "sphincs128s.keygen": 194.0, "sphincs128s.sign": 1460.0, "sphincs192s.keygen": 282.0,
    "sphincs192s.sign": 2600.0, "sphincs256s.keygen": 186.0, "sphincs256s.sign": 2300.0,
    "falcon512.keygen": 19.0, "falcon1024.keygen": 51.0,
}  # fmt: skip


def _expected(key: str, fast_ms: float = 0.5) -> float:
    return _SLOW_MS.get(key, fast_ms)


def kem_benchmarks(primitives: Primitives) -> Iterator[Benchmark]:
    """Nine KEMs × keygen, encapsulate, decapsulate."""
    for kem in (kem for token, kem in KEMS.items() if token in _MATRIX_TOKENS):
        provider = primitives.kem(kem.token)
        sizes = {
            "public_key": kem.public_key_bytes,
            "secret_key": kem.secret_key_bytes,
            "ciphertext": kem.ciphertext_bytes,
            "shared_secret": kem.shared_secret_bytes,
        }
        steps = {"keygen": _keygen, "encapsulate": _encapsulate, "decapsulate": _decapsulate}
        for operation, make in steps.items():
            yield Benchmark(
                "kem",
                f"{file_stem(kem.name)}_{operation}",
                kem.name,
                operation,
                partial(make, provider),
                False,
                sizes,
                expected_ms=_expected(f"{kem.token}.{operation}"),
            )


def _keygen(provider: KemProvider | SigProvider) -> Step:
    return provider.generate


def _encapsulate(provider: KemProvider) -> Step:
    return partial(provider.encapsulate, provider.generate().public)


def _decapsulate(provider: KemProvider) -> Step:
    pair = provider.generate()
    ciphertext, secret = provider.encapsulate(pair.public)
    if provider.decapsulate(pair, ciphertext) != secret:
        raise PrimitiveFailed("decapsulation gave another secret than encapsulation")
    return partial(provider.decapsulate, pair, ciphertext)


def sig_benchmarks(primitives: Primitives) -> Iterator[Benchmark]:
    """Eight signature schemes × keygen, sign, verify."""
    for sig in (sig for token, sig in SIGS.items() if token in _MATRIX_TOKENS):
        provider = primitives.sig(sig.token)
        sizes = {
            "public_key": sig.public_key_bytes,
            "secret_key": sig.secret_key_bytes,
            "signature": sig.signature_bytes,
            "message": _MESSAGE_BYTES,
        }
        for operation, make in {"keygen": _keygen, "sign": _sign, "verify": _verify}.items():
            yield Benchmark(
                "sig",
                f"{file_stem(sig.name)}_{operation}",
                sig.name,
                operation,
                partial(make, provider),
                False,
                sizes,
                expected_ms=_expected(f"{sig.token}.{operation}"),
            )


def _sign(provider: SigProvider) -> Step:
    return partial(provider.sign, provider.generate()[1], os.urandom(_MESSAGE_BYTES))


def _verify(provider: SigProvider) -> Step:
    public, secret = provider.generate()
    message = os.urandom(_MESSAGE_BYTES)
    signature = provider.sign(secret, message)
    if not provider.verify(public, message, signature):
        raise PrimitiveFailed("a signature does not verify under its own key")
    return partial(provider.verify, public, message, signature)


def aead_benchmarks(primitives: Primitives) -> Iterator[Benchmark]:
    """Three AEADs × four payloads × encrypt, decrypt."""
    for aead in (aead for token, aead in AEADS.items() if token in _MATRIX_TOKENS):
        key = primitives.aead(aead.token).new(os.urandom(aead.key_bytes))
        nonce = os.urandom(aead.nonce_bytes)
        for payload_bytes in PAYLOADS_BYTES:
            plaintext = os.urandom(payload_bytes)
            for operation, make in {"encrypt": _encrypt, "decrypt": _decrypt}.items():
                yield Benchmark(
                    "aead",
                    f"{file_stem(aead.name)}_{operation}_{payload_bytes}B",
                    aead.name,
                    operation,
                    partial(make, key, nonce, plaintext),
                    False,
                    {"payload": payload_bytes, "tag": aead.tag_bytes},
                    expected_ms=0.01,
                )


def _encrypt(key: AeadKey, nonce: bytes, plaintext: bytes) -> Step:
    # The same nonce again: harmless for a key that protects nothing, and one thing less in the timer.
    return partial(key.seal, nonce, plaintext, _AAD)


def _decrypt(key: AeadKey, nonce: bytes, plaintext: bytes) -> Step:
    return partial(key.open, nonce, key.seal(nonce, plaintext, _AAD), _AAD)


def suite_benchmarks(primitives: Primitives) -> Iterator[Benchmark]:
    """All 72 full handshakes, both ends in this process, no network; the 23 published ones marked."""
    for suite in SUITES.values():
        kem_ms = sum(
            _expected(f"{suite.kem.token}.{o}", 0.1) for o in ("keygen", "encapsulate", "decapsulate")
        )
        sig_ms = sum(_expected(f"{suite.sig.token}.{o}", 0.2) for o in ("sign", "verify"))
        yield Benchmark(
            "suites",
            f"{suite.id.replace('-', '_')}_full_handshake",
            suite.id,
            "full_handshake",
            _Suite(suite, primitives).prepare,
            True,
            published=suite.id in PUBLISHED_SUITES,
            expected_ms=kem_ms + sig_ms,
        )


class _Suite:
    """Makes the long-term keys of a suite once, when its turn comes."""

    def __init__(self, suite: Suite, primitives: Primitives) -> None:
        self._suite = suite
        self._primitives = primitives
        self._handshake: InMemoryHandshake | None = None

    def prepare(self) -> Step:
        if self._handshake is None:
            self._handshake = InMemoryHandshake(self._suite, self._primitives)
        return self._handshake.fresh()


def all_benchmarks(primitives: Primitives) -> list[Benchmark]:
    """KEM, signature, AEAD, suites: the order of `primitives-2026-01`."""
    makers = (kem_benchmarks, sig_benchmarks, aead_benchmarks, suite_benchmarks)
    return [benchmark for maker in makers for benchmark in maker(primitives)]


_MATRIX_TOKENS: Final = frozenset(
    token for suite in SUITES.values() for token in (suite.kem.token, suite.sig.token, suite.aead.token)
)
"""The algorithms of the 72; what the registry knows beyond them is timed by the campaign."""

PUBLISHED_SUITES: Final = frozenset(
    suite.id
    for suite in SUITES.values()
    # primitives-2026-01 §8: every Classic McEliece suite but one, which its table leaves out.
    if suite.kem.family == "mceliece" and suite.id != "cs-classicmceliece8192128-ascon128a-sphincs256s"
)
