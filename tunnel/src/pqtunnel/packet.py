"""Data-plane packet format: 8-byte header, ciphertext, 16-byte tag.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-------+-------+-----------------------------------------------+
    | type  | epoch |              receiver index (24)              |
    +-------+-------+-----------------------------------------------+
    |               low 32 bits of the sequence                     |
    +---------------------------------------------------------------+

The header is the AAD; the nonce is the direction's IV xor the 64-bit sequence (RFC 8446 §5.3 construction).
"""

from __future__ import annotations

import struct
from typing import Final

DATA: Final = 1
KEEPALIVE: Final = 2
EPOCH_ACK: Final = 3
REKEY_REQUEST: Final = 4
PATH_CHALLENGE: Final = 5
PATH_RESPONSE: Final = 6

TYPE_NAMES: Final = {
    DATA: "data",
    KEEPALIVE: "keepalive",
    EPOCH_ACK: "epoch-ack",
    REKEY_REQUEST: "rekey-request",
    PATH_CHALLENGE: "path-challenge",
    PATH_RESPONSE: "path-response",
}

EMPTY_BYTES: Final = 0
REKEY_REQUEST_BYTES: Final = 4
PATH_TOKEN_BYTES: Final = 8
CONTROL_BYTES: Final = {
    EPOCH_ACK: EMPTY_BYTES,
    REKEY_REQUEST: REKEY_REQUEST_BYTES,
    PATH_CHALLENGE: PATH_TOKEN_BYTES,
    PATH_RESPONSE: PATH_TOKEN_BYTES,
}
"""Payload length of each control type that carries a meaning; another length is ignored."""
REQUEST_DUE: Final = 1
REQUEST_ASKED: Final = 2
SAME_SUITE: Final = bytes(3)

HEADER_BYTES: Final = 8
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = HEADER_BYTES + TAG_BYTES
MAX_DATAGRAM_BYTES: Final = 65_507
"""Largest UDP payload over IPv4: 65,535 less 20 (IP) and 8 (UDP)."""
MAX_PLAINTEXT_BYTES: Final = MAX_DATAGRAM_BYTES - OVERHEAD_BYTES

SEQUENCE_MASK: Final = 0xFFFF_FFFF

_HEADER: Final = struct.Struct(">II")
pack_words = _HEADER.pack
unpack_words = _HEADER.unpack_from


def first_word(packet_type: int, epoch: int, receiver_index: int) -> int:
    """The header's first 32 bits; constant for one type, epoch and direction."""
    return packet_type << 28 | (epoch & 0xF) << 24 | receiver_index


def header(packet_type: int, epoch: int, receiver_index: int, sequence: int) -> bytes:
    """The 8 header bytes of one packet."""
    return pack_words(first_word(packet_type, epoch, receiver_index), sequence & SEQUENCE_MASK)


def rekey_request(reason: int, suite_code: bytes = SAME_SUITE) -> bytes:
    """Payload of a rekey-request: why (REQUEST_*), and the suite wanted."""
    return bytes((reason,)) + suite_code


def nonce(iv: bytes, sequence: int) -> bytes:
    """IV xor sequence, the sequence right-aligned as a big-endian integer; length of the IV."""
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")
