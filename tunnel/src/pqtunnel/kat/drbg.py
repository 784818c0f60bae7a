"""The two deterministic generators behind the known answers of liboqs, and putting them in its place.

AES-256-CTR DRBG without derivation function, NIST SP 800-90A §10.2.1, as NIST's submission kit uses it; and
the SHAKE-256 stream with which the HQC submission makes its own vectors.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Iterator
from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SEED_BYTES: Final = 48


class Generator(Protocol):
    """A deterministic byte stream with a 48-byte seed."""

    def read(self, count: int) -> bytes: ...


class CtrDrbg:
    """AES-256-CTR DRBG. Raises ValueError unless the seed has 48 bytes."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"the seed has {len(seed)} bytes, not {SEED_BYTES}")
        self._key, self._counter = bytes(32), 0
        self._update(seed)

    def read(self, count: int) -> bytes:
        """The next `count` bytes; every call ends with an update, so call sizes are part of the stream."""
        output = self._blocks(-(-count // 16))[:count]
        self._update(bytes(SEED_BYTES))
        return output

    def _blocks(self, count: int) -> bytes:
        counters = b"".join(
            ((self._counter + step) % (1 << 128)).to_bytes(16, "big") for step in range(1, count + 1)
        )
        self._counter = (self._counter + count) % (1 << 128)
        # ECB over successive counters is the generator's definition, not an encryption of data.
        return Cipher(algorithms.AES(self._key), modes.ECB()).encryptor().update(counters)

    def _update(self, provided: bytes) -> None:
        mixed = bytes(left ^ right for left, right in zip(self._blocks(3), provided, strict=True))
        self._key, self._counter = mixed[:32], int.from_bytes(mixed[32:], "big")


class HqcShake:
    """SHAKE-256(seed ‖ 0x01) as a stream: the generator of the 2023-04 HQC vectors."""

    def __init__(self, seed: bytes) -> None:
        self._stream = hashlib.shake_256(seed + b"\x01")
        self._position = 0

    def read(self, count: int) -> bytes:
        """The next `count` bytes."""
        start, self._position = self._position, self._position + count
        return self._stream.digest(self._position)[start:]


@contextlib.contextmanager
def replaced_randomness(native: ctypes.CDLL, generator: Generator) -> Iterator[None]:
    """While active, liboqs draws every random byte of this process from `generator`."""

    def fill(target: int, count: int) -> None:
        ctypes.memmove(target, generator.read(count), count)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(fill)
    native.OQS_randombytes_custom_algorithm(callback)
    try:
        yield
    finally:
        native.OQS_randombytes_switch_algorithm(b"system")
