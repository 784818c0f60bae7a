"""Writes packet captures: the three blocks of the pcapng format that a capture without gaps needs.

Source: IETF draft-ietf-opsawg-pcapng, sections 4.1 (section header), 4.2 (interface description), 4.3
(enhanced packet). Little-endian always, no clock of our own: equal packets give equal bytes.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE_DESCRIPTION: Final = 1
ENHANCED_PACKET: Final = 6
BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
VERSION: Final = (1, 0)
#: LINKTYPE_USER0 of the registry: what the bytes are is between those who use it
USER0: Final = 147
_UNKNOWN_LENGTH: Final = -1
_END_OF_OPTIONS: Final = 0
_COMMENT: Final = 1
_SECTION_APPLICATION: Final = 4
_INTERFACE_NAME, _INTERFACE_TEXT, _INTERFACE_RESOLUTION = 2, 3, 9
_PACKET_FLAGS, _PACKET_ID = 2, 5
_NANOSECONDS: Final = 9
_INBOUND, _OUTBOUND = 1, 2


class Capture:
    """One section, written as packets come. Interfaces first, then packets in order of time."""

    def __init__(self, out: BinaryIO, *, application: str, comment: str) -> None:
        self._out = out
        self._interfaces_count = 0
        head = struct.pack("<IHHq", BYTE_ORDER_MAGIC, *VERSION, _UNKNOWN_LENGTH)
        options = _text(_COMMENT, comment) + _text(_SECTION_APPLICATION, application)
        self._block(SECTION_HEADER, head + options + _option(_END_OF_OPTIONS, b""))

    def interface(self, name: str, description: str) -> int:
        """A place where packets are seen; returns the number that its packets name. Times are ns."""
        options = (
            _text(_INTERFACE_NAME, name)
            + _text(_INTERFACE_TEXT, description)
            + _option(_INTERFACE_RESOLUTION, bytes((_NANOSECONDS,)))
            + _option(_END_OF_OPTIONS, b"")
        )
        self._block(INTERFACE_DESCRIPTION, struct.pack("<HHI", USER0, 0, 0) + options)
        self._interfaces_count += 1
        return self._interfaces_count - 1

    def packet(
        self,
        interface: int,
        t_ns: int,
        data: bytes,
        original_bytes: int,
        *,
        outbound: bool,
        packet_id: int | None,
        comment: str,
    ) -> None:
        """One packet as one interface saw it.

        t_ns: realtime ns, 0 to 2^64; data: what was recorded of it, b"" for nothing; original_bytes: its
        length on the wire; packet_id: the same at every interface that saw this packet, None for none.
        """
        fixed = struct.pack("<IIIII", interface, t_ns >> 32, t_ns & 0xFFFF_FFFF, len(data), original_bytes)
        options = _text(_COMMENT, comment)
        options += _option(_PACKET_FLAGS, struct.pack("<I", _OUTBOUND if outbound else _INBOUND))
        if packet_id is not None:
            options += _option(_PACKET_ID, struct.pack("<Q", packet_id))
        self._block(ENHANCED_PACKET, fixed + _padded(data) + options + _option(_END_OF_OPTIONS, b""))

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", 12 + len(body))
        self._out.write(struct.pack("<I", kind) + length + body + length)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _text(code: int, text: str) -> bytes:
    return _option(code, text.encode("utf-8"))
