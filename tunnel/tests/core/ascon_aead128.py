"""Ascon-AEAD128 written from NIST SP 800-232 alone, over integers: slow, readable, the tests' second opinion.

Section numbers are those of SP 800-232. Bytes enter the state words in little-endian order (§3).
"""

from __future__ import annotations

from typing import Final

_IV: Final = 0x00001000808C0001
_MASK: Final = (1 << 64) - 1
_CONSTANTS: Final = bytes.fromhex("3c2d1e0ff0e1d2c3b4a5968778695a4b")
"""const_i of table 5; a permutation of r rounds uses the last r of them."""
_ROTATIONS: Final = ((19, 28), (61, 39), (1, 6), (10, 17), (7, 41))
_RATE_BYTES: Final = 16


def _permute(state: list[int], rounds: int) -> None:
    """Ascon-p[rounds], §3.1–3.4."""
    for constant in _CONSTANTS[16 - rounds :]:
        x0, x1, x2, x3, x4 = state
        x2 ^= constant
        x0, x4, x2 = x0 ^ x4, x4 ^ x3, x2 ^ x1
        y0, y1, y2 = x0 ^ (~x1 & x2), x1 ^ (~x2 & x3), x2 ^ (~x3 & x4)
        y3, y4 = x3 ^ (~x4 & x0), x4 ^ (~x0 & x1)
        y1, y0, y3, y2 = y1 ^ y0, y0 ^ y4, y3 ^ y2, ~y2
        words = [word & _MASK for word in (y0, y1, y2, y3, y4)]
        for place, (left, right) in enumerate(_ROTATIONS):
            word = words[place]
            turned = (word >> left | word << (64 - left)) ^ (word >> right | word << (64 - right))
            state[place] = (word ^ turned) & _MASK


def _pad(part: bytes) -> bytes:
    return part + b"\x01" + bytes(_RATE_BYTES - len(part) - 1)


def _words(block: bytes) -> tuple[int, int]:
    return int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")


def _run(key: bytes, nonce: bytes, aad: bytes, text: bytes, *, opening: bool) -> tuple[bytes, bytes]:
    """(text out, tag), §4.1.1 and §4.1.2."""
    k0, k1 = _words(key)
    state = [_IV, k0, k1, *_words(nonce)]
    _permute(state, 12)
    state[3] ^= k0
    state[4] ^= k1
    if aad:
        whole = len(aad) // _RATE_BYTES * _RATE_BYTES
        for start in range(0, whole + 1, _RATE_BYTES):
            block = aad[start : start + _RATE_BYTES]
            low, high = _words(block if start < whole else _pad(block))
            state[0] ^= low
            state[1] ^= high
            _permute(state, 8)
    state[4] ^= 1 << 63
    output = b""
    whole = len(text) // _RATE_BYTES * _RATE_BYTES
    for start in range(0, whole + 1, _RATE_BYTES):
        block = text[start : start + _RATE_BYTES]
        stream = state[0].to_bytes(8, "little") + state[1].to_bytes(8, "little")
        made = bytes(a ^ b for a, b in zip(block, stream, strict=False))
        output += made
        plain = made if opening else block
        low, high = _words(plain if start < whole else _pad(plain))
        state[0] ^= low
        state[1] ^= high
        if start < whole:
            _permute(state, 8)
    state[2] ^= k0
    state[3] ^= k1
    _permute(state, 12)
    tag = (state[3] ^ k0).to_bytes(8, "little") + (state[4] ^ k1).to_bytes(8, "little")
    return output, tag


def seal(key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """Ciphertext ‖ tag."""
    ciphertext, tag = _run(key, nonce, aad, plaintext, opening=False)
    return ciphertext + tag


def open_(key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
    """The plaintext, or None when the tag does not fit."""
    plaintext, tag = _run(key, nonce, aad, sealed[:-16], opening=True)
    return plaintext if tag == sealed[-16:] else None
