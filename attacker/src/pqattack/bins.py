"""What was sent, by 20 ms of real time: the ground truth of an episode, bounded while it is made."""

from __future__ import annotations

from pqattack.bounds import BIN_NS, MAX_BIN_COUNT


class SentBins:
    """Counts by bin number (realtime ns // 20 ms). `admit` bounds each bin before anything is sent."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        #: datagrams that were due and not sent, because their bin was full or the sender had fallen behind
        self.skipped = 0
        self._tried = 0
        self._bin = -1

    @property
    def sent(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    def admit(self, now_ns: int) -> bool:
        """May one more go now?"""
        number = now_ns // BIN_NS
        if number != self._bin:
            self._bin, self._tried = number, 0
        if self._tried >= MAX_BIN_COUNT:
            return False
        self._tried += 1
        return True

    def add(self, now_ns: int) -> None:
        """One that was admitted at `now_ns` has gone."""
        number = now_ns // BIN_NS
        self.counts[number] = self.counts.get(number, 0) + 1
        self.first_ns = now_ns if self.first_ns is None else self.first_ns
        self.last_ns = now_ns
