"""MAVLink frames out of a stream of bytes, as a TCP client sends them: boundaries alone, nothing is checked.

Source: MAVLink 2 serialisation (magic 0xFD, length, flags; 12 bytes around the payload, 13 more where it is
signed) and MAVLink 1 (magic 0xFE, length; 8 bytes around the payload).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_V1, _V2 = 0xFE, 0xFD
_AROUND_V1: Final = 8
_AROUND_V2: Final = 12
_SIGNATURE_BYTES: Final = 13
_SIGNED: Final = 0x01


class Frames:
    """Bytes in, whole frames out; what lies between frames is skipped and counted."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.skipped_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Every frame that is whole now, byte for byte."""
        self._buffer += chunk
        while self._buffer:
            if self._buffer[0] not in (_V1, _V2):
                self.skipped_bytes += 1
                del self._buffer[0]
                continue
            if len(self._buffer) < 3:
                return
            length = self._buffer[1] + (_AROUND_V1 if self._buffer[0] == _V1 else _AROUND_V2)
            if self._buffer[0] == _V2 and self._buffer[2] & _SIGNED:
                length += _SIGNATURE_BYTES
            if len(self._buffer) < length:
                return
            yield bytes(self._buffer[:length])
            del self._buffer[:length]
