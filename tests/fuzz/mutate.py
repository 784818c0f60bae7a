"""Mutations of one input: the usual small ones, stacked."""

from __future__ import annotations

import random
from collections.abc import Sequence

_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    31,
    32,
    64,
    127,
    128,
    255,
    256,
    1023,
    1024,
    4096,
    65_535,
    1 << 24,
    (1 << 31) - 1,
)


def mutate(
    data: bytes, corpus: Sequence[bytes], words: Sequence[bytes], rng: random.Random, limit: int
) -> bytes:
    """A neighbour of `data`, at most `limit` bytes long; `words` are tokens of the format."""
    out = bytearray(data)
    for _ in range(1 << rng.randrange(4)):
        _once(out, corpus, words, rng)
    return bytes(out[:limit])


def _once(out: bytearray, corpus: Sequence[bytes], words: Sequence[bytes], rng: random.Random) -> None:
    kind = rng.randrange(9 if words else 8)
    at = rng.randrange(len(out) + 1)
    if not out or kind == 0:
        out[at:at] = rng.randbytes(1 + rng.randrange(8))
        return
    place = min(at, len(out) - 1)
    if kind == 1:
        out[place] ^= 1 << rng.randrange(8)
    elif kind == 2:
        out[place] = rng.randrange(256)
    elif kind == 3:
        del out[at : at + 1 + rng.randrange(max(1, len(out) // 4))]
    elif kind == 4:
        part = out[place : place + 1 + rng.randrange(64)]
        out[at:at] = part * (1 + rng.randrange(3))
    elif kind == 5:
        width = rng.choice((1, 2, 3, 4, 8))
        number = (rng.choice(_NUMBERS) * rng.choice((1, -1))) % (1 << 8 * width)
        out[at : at + width] = number.to_bytes(width, rng.choice(("big", "little")))
    elif kind == 6:
        out[place] = (out[place] + rng.randrange(-16, 17)) % 256
    elif kind == 7:
        other = rng.choice(corpus) if corpus else b""
        start = rng.randrange(len(other) + 1)
        out[at:] = other[start:]
    else:
        word = rng.choice(words)
        if rng.random() < 0.5:
            out[at:at] = word
        else:
            out[at : at + len(word)] = word
