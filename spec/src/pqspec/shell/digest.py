"""Digest of a data packet: what lets two ends agree, by one sum each, that the same bytes arrived."""

from __future__ import annotations

import xxhash


def digest(sequence: int, plaintext: bytes) -> int:
    """XXH3-64 of the plaintext, seeded with the packet's sequence (0 to 2^64 - 1).

    Both ends sum it modulo 2^64, so order does not matter. It finds faults of a data plane and keeps nobody
    out: the AEAD's tag does that. Source: the xxHash specification, XXH3 (64 bits).
    """
    return xxhash.xxh3_64_intdigest(plaintext, seed=sequence)
