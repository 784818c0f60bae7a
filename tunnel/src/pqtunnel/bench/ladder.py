"""The embedded ladder of `esp32c6-ladder`: AES-256-CTR and SHA-256 at ten sizes, RSA-2048, the timer itself.

The published board reads 14 µs for SHA-256 at every size up to 32 KiB: there the work was not in the timer.
Here each step returns its result, and `checks` proves that time grows with size and that results are right.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from pqtunnel.bench.operations import Benchmark, Step

SIZES_BYTES: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
RSA_BITS: Final = 2048
PUBLIC_EXPONENT: Final = 65_537


def _aes_ctr(data: bytes) -> Step:
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))

    def step() -> bytes:
        # A fresh context an iteration, as the board sets its engine up for every buffer.
        encryptor = cipher.encryptor()
        return encryptor.update(data) + encryptor.finalize()

    return step


def _sha256(data: bytes) -> Step:
    return lambda: hashlib.sha256(data).digest()


def _modexp(exponent_bits: int) -> Step:
    modulus = secrets.randbits(RSA_BITS) | 1 << (RSA_BITS - 1) | 1
    base = secrets.randbelow(modulus)
    exponent = (
        PUBLIC_EXPONENT if exponent_bits == 17 else secrets.randbits(exponent_bits) | 1 << (exponent_bits - 1)
    )
    return partial(pow, base, exponent, modulus)


def _nothing() -> Step:
    return _empty


def _empty() -> None:
    return None


def ladder_benchmarks() -> Iterator[Benchmark]:
    """Twenty-three rungs. Modular exponentiation states its exponent: a full 2048-bit one (what a private
    operation without the Chinese remainder theorem costs) and the public 65537."""
    for size_bytes in SIZES_BYTES:
        data = os.urandom(size_bytes)
        yield Benchmark(
            "ladder",
            f"AES_256_CTR_{size_bytes}B",
            "AES-256-CTR",
            "encrypt",
            partial(_aes_ctr, data),
            False,
            {"payload": size_bytes},
            published=False,
            expected_ms=0.02,
        )
        yield Benchmark(
            "ladder",
            f"SHA_256_{size_bytes}B",
            "SHA-256",
            "hash",
            partial(_sha256, data),
            False,
            {"payload": size_bytes},
            published=False,
            expected_ms=0.02,
        )
    for bits in (RSA_BITS, 17):
        yield Benchmark(
            "ladder",
            f"RSA_2048_modexp_e{bits}bit",
            "RSA-2048",
            f"modexp, {bits}-bit exponent",
            partial(_modexp, bits),
            False,
            {"modulus": RSA_BITS // 8, "exponent_bits": bits},
            published=False,
            expected_ms=20.0,
        )
    yield Benchmark(
        "ladder", "timer_overhead", "timer", "empty", _nothing, False, published=False, expected_ms=0.001
    )
