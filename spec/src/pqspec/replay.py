"""Replay window and reconstruction of 64-bit sequences from their low 32 bits.

Nothing here moves before a tag has verified: `reconstruct` and `seen` only read, `accept` is called
afterwards. A forged header can therefore never push the window, however large the sequence it claims.
"""

from __future__ import annotations

from typing import Final

WINDOW_PACKETS: Final = 2048
_MASK: Final = (1 << WINDOW_PACKETS) - 1
_HALF: Final = 1 << 31
_FULL: Final = 1 << 32


class ReplayWindow:
    """Sequences accepted so far: the highest, and a bit for each of the 2,048 up to it (bit 0 = highest)."""

    __slots__ = ("_bits", "next_sequence")

    def __init__(self) -> None:
        self.next_sequence = 0
        """Highest authenticated sequence + 1; 0 before the first packet."""
        self._bits = 0

    def reconstruct(self, low32: int) -> int:
        """The 64-bit sequence with these low bits that lies nearest to highest authenticated + 1.

        A tie (exactly 2^31 away) goes backwards; a result below 0 is impossible and goes forwards.
        """
        ahead = (low32 - self.next_sequence) & 0xFFFF_FFFF
        if ahead >= _HALF:
            sequence = self.next_sequence + ahead - _FULL
            if sequence >= 0:
                return sequence
        return self.next_sequence + ahead

    def seen(self, sequence: int) -> bool:
        """True for a sequence that was accepted before or is too old for the window to tell."""
        behind = self.next_sequence - 1 - sequence
        if behind < 0:
            return False
        return behind >= WINDOW_PACKETS or bool(self._bits >> behind & 1)

    def accept(self, sequence: int) -> None:
        """Record a sequence whose tag has verified and that was not `seen`."""
        ahead = sequence - self.next_sequence
        if ahead >= 0:
            shift = ahead + 1
            self._bits = (self._bits << shift & _MASK | 1) if shift < WINDOW_PACKETS else 1
            self.next_sequence = sequence + 1
        else:
            self._bits |= 1 << (-ahead - 1)
