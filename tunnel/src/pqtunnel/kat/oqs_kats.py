"""Known answers of every KEM and signature scheme: the first vector of each algorithm's NIST response file.

liboqs keeps the SHA-256 of that file's text (tests/KATs/{kem,sig}/kats.json, entry "single"); the text is
made again here, key generation to decapsulation or verification, and hashed. vectors/PROVENANCE.md tells
the origin.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import resources
from typing import Final

from pqtunnel.errors import SelfTestFailed
from pqtunnel.kat.drbg import CtrDrbg, Generator, HqcShake, replaced_randomness
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.primitives.oqs_library import load_oqs
from pqtunnel.suites import Kem, Sig

_ENTROPY: Final = bytes(range(48))
_MESSAGE_BYTES: Final = 33
_FALCON_HEADER: Final = {"falcon512": 0x29, "falcon1024": 0x2A}
_FALCON_SALT_BYTES: Final = 40


@functools.cache
def _expected() -> dict[str, dict[str, str]]:
    text = resources.files("pqtunnel").joinpath("vectors", "oqs-kats.json").read_text("utf-8")
    answers: dict[str, dict[str, str]] = json.loads(text)
    return answers


def _line(name: str, value: bytes) -> bytes:
    return f"{name} = {value.hex().upper()}\n".encode()


def _compare(kind: str, token: str, text: bytes) -> str:
    found, expected = hashlib.sha256(text).hexdigest(), _expected()[kind].get(token)
    if expected is None:
        raise SelfTestFailed("no known answer is held for it, so it is not used")
    if found != expected:
        raise SelfTestFailed(f"known answer {found[:16]}… differs from {expected[:16]}…")
    return f"NIST vector 0 reproduced, sha256 {found[:16]}…"


def check_kem(primitives: Primitives, kem: Kem) -> str:
    """Key generation, encapsulation and decapsulation of vector 0. Raises SelfTestFailed."""
    provider = primitives.kem(kem.token)
    make: type[CtrDrbg] | type[HqcShake] = HqcShake if kem.family == "hqc" else CtrDrbg
    seed = make(_ENTROPY).read(48)
    with replaced_randomness(load_oqs().native(), make(seed)):
        pair = provider.generate()
        text = (
            b"count = 0\n" + _line("seed", seed) + _line("pk", pair.public) + _line("sk", bytes(pair.secret))
        )
        ciphertext, secret = provider.encapsulate(pair.public)
        text += _line("ct", ciphertext) + _line("ss", bytes(secret))
        if provider.decapsulate(pair, ciphertext) != secret:
            raise SelfTestFailed("decapsulation gives another secret than encapsulation")
    return _compare("kem", kem.token, text)


def check_sig(primitives: Primitives, sig: Sig) -> str:
    """Key generation, signature and verification of vector 0. Raises SelfTestFailed."""
    provider = primitives.sig(sig.token)
    outer: Generator = CtrDrbg(_ENTROPY)
    seed, message = outer.read(48), outer.read(_MESSAGE_BYTES)
    with replaced_randomness(load_oqs().native(), CtrDrbg(seed)):
        public, secret = provider.generate()
        signature = provider.sign(secret, message)
    if not provider.verify(public, message, signature):
        raise SelfTestFailed("its own signature does not verify")
    if provider.verify(public, bytes(_MESSAGE_BYTES), signature):
        raise SelfTestFailed("a signature verifies over another message")
    signed = _signed_message(sig.token, message, signature)
    text = b"count = 0\n" + _line("seed", seed) + f"mlen = {len(message)}\n".encode() + _line("msg", message)
    text += (
        _line("pk", public) + _line("sk", secret) + f"smlen = {len(signed)}\n".encode() + _line("sm", signed)
    )
    return _compare("sig", sig.token, text)


def _signed_message(token: str, message: bytes, signature: bytes) -> bytes:
    """The combined form of the response files; Falcon's puts length and salt first."""
    header = _FALCON_HEADER.get(token)
    if header is None:
        return signature + message
    salt, body = signature[1 : 1 + _FALCON_SALT_BYTES], signature[1 + _FALCON_SALT_BYTES :]
    length = len(signature) - _FALCON_SALT_BYTES
    return length.to_bytes(2, "big") + salt + message + bytes((header,)) + body
