"""Replay window and reconstruction of 64-bit sequences from their low 32 bits.

Nothing here moves before a tag has verified: `reconstruct` and `judge` only read, `accept` and `accept_copy`
are called afterwards. A forged header can therefore never push the window, however large the sequence it
claims.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

WINDOW_PACKETS: Final = 2048
DUPLICATE_NS: Final = 1_000_000_000
"""A second copy within this time of the first is the way's doing (a Wi-Fi retry, a bonded link)."""
_MS: Final = 1_000_000
_MASK: Final = (1 << WINDOW_PACKETS) - 1
_HALF: Final = 1 << 31
_FULL: Final = 1 << 32


class Judged(Enum):
    """What a sequence is, before its tag is asked."""

    FRESH = "not accepted before"
    COPY = "accepted once, so lately that its second copy may still be on the way"
    REPLAY = "accepted before, or too old to tell"


class ReplayWindow:
    """Sequences accepted so far: the highest, a bit for each of the 2,048 up to it (bit 0 = highest), and
    when each of these came, ms, until a second copy of it comes."""

    __slots__ = ("_bits", "_once_ms", "next_sequence")

    def __init__(self) -> None:
        self.next_sequence = 0
        """Highest authenticated sequence + 1; 0 before the first packet."""
        self._bits = 0
        self._once_ms: dict[int, int] = {}

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

    def judge(self, sequence: int, now_ns: int) -> Judged:
        """What a sequence is that comes now: accepted before, and a replay where it is too old to tell, came
        more than a second ago, or came twice."""
        behind = self.next_sequence - 1 - sequence
        if behind < 0:
            return Judged.FRESH
        if behind >= WINDOW_PACKETS:
            return Judged.REPLAY
        if not self._bits >> behind & 1:
            return Judged.FRESH
        once_ms = self._once_ms.get(sequence)
        if once_ms is None or now_ns // _MS - once_ms > DUPLICATE_NS // _MS:
            return Judged.REPLAY
        return Judged.COPY

    def accept_copy(self, sequence: int) -> None:
        """Record a sequence that was judged a COPY and whose tag has verified: the next one is a replay."""
        del self._once_ms[sequence]

    def accept(self, sequence: int, now_ns: int) -> None:
        """Record a sequence that was judged FRESH and whose tag has verified."""
        self._once_ms[sequence] = now_ns // _MS
        if len(self._once_ms) > 2 * WINDOW_PACKETS:
            oldest = self.next_sequence - WINDOW_PACKETS
            self._once_ms = {seen: at for seen, at in self._once_ms.items() if seen >= oldest}
        ahead = sequence - self.next_sequence
        if ahead >= 0:
            shift = ahead + 1
            self._bits = (self._bits << shift & _MASK | 1) if shift < WINDOW_PACKETS else 1
            self.next_sequence = sequence + 1
        else:
            self._bits |= 1 << (-ahead - 1)
