"""A reader of packet captures, written from the format's specification: it shares no line with the writer.

IETF draft-ietf-opsawg-pcapng: 3.1 general block structure, 3.5 options, 4.1 section header, 4.2 interface
description, 4.3 enhanced packet. It refuses whatever the specification does not allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Interface:
    link_type: int
    name: str
    description: str
    ticks_per_s: int


@dataclass
class Packet:
    interface: int
    t_ns: int
    data: bytes
    original_bytes: int
    comment: str
    outbound: bool | None
    packet_id: int | None


@dataclass
class CaptureFile:
    comment: str
    application: str
    interfaces: list[Interface] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)


def blocks_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, body) of each block; every length is checked twice."""
    offset = 0
    while offset < len(data):
        assert len(data) - offset >= 12, "a block has twelve bytes at least"
        kind, length = _whole(data, offset, 4), _whole(data, offset + 4, 4)
        assert length >= 12 and length % 4 == 0, f"block length {length}"
        assert offset + length <= len(data), "the last block is cut off"
        assert _whole(data, offset + length - 4, 4) == length, "both lengths of a block are the same"
        yield kind, data[offset + 8 : offset + length - 4]
        offset += length


def options_of(data: bytes) -> dict[int, bytes]:
    """Code → value; they end with opt_endofopt and leave nothing behind it."""
    found: dict[int, bytes] = {}
    offset = 0
    while True:
        code, length = _whole(data, offset, 2), _whole(data, offset + 2, 2)
        offset += 4
        if code == 0:
            assert length == 0 and offset == len(data), "bytes behind the end of options"
            return found
        assert code not in found
        found[code] = data[offset : offset + length]
        padding = -length % 4
        assert data[offset + length : offset + length + padding] == bytes(padding), "padding is zero"
        offset += length + padding


def read_capture(path: Path) -> CaptureFile:
    """One little-endian section, the form that the exporter promises."""
    blocks = blocks_of(path.read_bytes())
    kind, body = next(blocks)
    assert kind == 0x0A0D0D0A, "a file begins with a section header"
    assert _whole(body, 0, 4) == 0x1A2B3C4D
    assert (_whole(body, 4, 2), _whole(body, 6, 2)) == (1, 0)
    assert body[8:16] == b"\xff" * 8, "length of the section: not given"
    options = options_of(body[16:])
    found = CaptureFile(options[1].decode(), options[4].decode())
    for kind, body in blocks:
        if kind == 1:
            found.interfaces.append(_interface(body))
        elif kind == 6:
            found.packets.append(_packet(body, found.interfaces))
        else:
            raise AssertionError(f"block of type {kind}")
    return found


def _interface(body: bytes) -> Interface:
    assert _whole(body, 2, 2) == 0, "reserved"
    options = options_of(body[8:])
    (resolution,) = options[9]
    assert not resolution & 0x80, "a power of ten"
    return Interface(_whole(body, 0, 2), options[2].decode(), options[3].decode(), 10**resolution)


def _packet(body: bytes, interfaces: list[Interface]) -> Packet:
    number, high, low, captured, original = (_whole(body, offset, 4) for offset in range(0, 20, 4))
    ticks = (high << 32 | low) * 1_000_000_000 // interfaces[number].ticks_per_s
    padded = captured + -captured % 4
    options = options_of(body[20 + padded :])
    flags = int.from_bytes(options[2], "little") & 3 if 2 in options else 0
    outbound = {0: None, 1: False, 2: True}[flags]
    identity = int.from_bytes(options[5], "little") if 5 in options else None
    assert 5 not in options or len(options[5]) == 8
    return Packet(number, ticks, body[20 : 20 + captured], original, options[1].decode(), outbound, identity)


def _whole(data: bytes, offset: int, size: int) -> int:
    piece = data[offset : offset + size]
    assert len(piece) == size, "cut off"
    return int.from_bytes(piece, "little")
