"""Fuzz input as a row of choices. Past its end everything reads as zero, so every input is a whole one."""

from __future__ import annotations


class Reader:
    """Consumes one input from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end."""
        part = self._data[self._at : self._at + count]
        self._at += len(part)
        return part

    def exactly(self, count: int) -> bytes:
        """The next `count` bytes, filled up with zeros."""
        return self.take(count).ljust(count, b"\0")

    def u8(self) -> int:
        """0 … 255."""
        return self.exactly(1)[0]

    def u16(self) -> int:
        """0 … 65,535."""
        return int.from_bytes(self.exactly(2), "big")

    def u32(self) -> int:
        """0 … 2^32 − 1."""
        return int.from_bytes(self.exactly(4), "big")

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(self.left)


def altered(reader: Reader, sent: bytes) -> bytes:
    """What a relay makes of `sent`: as it is, a flipped bit, cut, longer, a part overwritten, other bytes."""
    kind = reader.u8() % 8
    if kind < 3 or not sent:
        return sent
    at = reader.u16() % len(sent)
    if kind == 3:
        return sent[:at] + bytes((sent[at] ^ 1 << reader.u8() % 8,)) + sent[at + 1 :]
    if kind == 4:
        return sent[:at]
    if kind == 5:
        return sent + reader.take(reader.u8())
    if kind == 6:
        part = reader.take(1 + reader.u8() % 64)
        return sent[:at] + part + sent[at + len(part) :]
    return reader.take(reader.u16() % 512)
