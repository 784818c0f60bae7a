"""Known answers of X25519 and Ed25519, and of the hybrids, whose KEM half has answers of its own."""

from __future__ import annotations

import functools
import json
from importlib import resources

from pqtunnel.errors import PrimitiveFailed, SelfTestFailed
from pqtunnel.primitives.interfaces import KemKeyPair, Primitives
from pqtunnel.suites import Kem, Sig


@functools.cache
def _vectors(algorithm: str) -> list[dict[str, str]]:
    text = resources.files("pqtunnel").joinpath("vectors", "curves.json").read_text("utf-8")
    return [vector for vector in json.loads(text) if vector["algorithm"] == algorithm]


def _require(found: bytes | bytearray, expected: str, what: str) -> None:
    if found.hex() != expected:
        raise SelfTestFailed(f"{what}: {found.hex()[:16]}… instead of {expected[:16]}…")


def check_x25519(primitives: Primitives) -> str:
    """Both ends of each vector, refusal of a point of small order, a round trip. Raises SelfTestFailed."""
    provider, vectors = primitives.kem("x25519"), _vectors("x25519")
    for vector in vectors:
        for mine, theirs in (("a", "b"), ("b", "a")):
            pair = KemKeyPair(b"", bytearray.fromhex(vector[f"secret_{mine}"]))
            shared = provider.decapsulate(pair, bytes.fromhex(vector[f"public_{theirs}"]))
            _require(shared, vector["shared"], vector["name"])
    pair = provider.generate()
    ciphertext, secret = provider.encapsulate(pair.public)
    if provider.decapsulate(pair, ciphertext) != secret:
        raise SelfTestFailed("decapsulation gives another secret than encapsulation")
    try:
        provider.encapsulate(bytes(32))
    except PrimitiveFailed:
        return ", ".join(vector["name"] for vector in vectors)
    raise SelfTestFailed("a public key of small order was accepted")


def check_hybrid(primitives: Primitives, kem: Kem) -> str:
    """Each half of the hybrid answers as the component alone does; the components have known answers of their
    own. Raises SelfTestFailed."""
    provider, inner = primitives.kem(kem.token), primitives.kem(kem.token.removeprefix("x25519"))
    classical = primitives.kem("x25519")
    pair = provider.generate()
    ciphertext, secret = provider.encapsulate(pair.public)
    _require(provider.decapsulate(pair, ciphertext), secret.hex(), "decapsulation")
    split = kem.x25519_bytes
    left = classical.decapsulate(KemKeyPair(pair.public[:split], pair.secret[:split]), ciphertext[:split])
    right = inner.decapsulate(KemKeyPair(pair.public[split:], pair.secret[split:]), ciphertext[split:])
    _require(left, secret[:split].hex(), "X25519 half")
    _require(right, secret[split:].hex(), "KEM half")
    return "both halves equal those of X25519 and the KEM above"


def check_ed25519(primitives: Primitives, sig: Sig) -> str:
    """Signature and verification of each vector, refusal of another message. Raises SelfTestFailed."""
    provider, vectors = primitives.sig(sig.token), _vectors("ed25519")
    for vector in vectors:
        public, message = bytes.fromhex(vector["public"]), bytes.fromhex(vector["message"])
        signature = provider.sign(bytes.fromhex(vector["secret"]), message)
        _require(signature, vector["signature"], vector["name"])
        if not provider.verify(public, message, signature):
            raise SelfTestFailed("its own signature does not verify")
        if provider.verify(public, message + b".", signature):
            raise SelfTestFailed("a signature verifies over another message")
    return ", ".join(vector["name"] for vector in vectors)
