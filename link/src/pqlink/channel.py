"""The fate of one packet in one direction: lost, queued, delayed, doubled. Sans-IO; randomness is given.

Order of decisions, as on a radio: the transmitter's queue and rate, then the medium (loss, burst loss), then
the propagation (delay, jitter, overtaking), then doubling. Each packet draws its jitter by itself, as netem
does, so jitter beyond the spacing of packets reorders them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields

from pqlink.settings import DEFAULT_QUEUE_MS, NORMAL_CUT, NOTHING, Side

MS_NS = 1_000_000


@dataclass
class Counts:
    """What became of the packets of one direction since the settings were put in place."""

    offered: int = 0
    offered_bytes: int = 0
    lost: int = 0
    lost_burst: int = 0
    lost_queue: int = 0
    delivered: int = 0
    duplicated: int = 0
    overtook: int = 0
    delay_sum_ns: int = 0
    delay_square_sum_ns2: int = 0
    late_count: int = 0
    late_sum_ns: int = 0
    late_max_ns: int = 0

    def as_dict(self) -> dict[str, int]:
        """Name → number."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Channel:
    """One direction. `offer` may be called with any non-decreasing `now_ns`."""

    def __init__(self, rng: random.Random, side: Side = NOTHING) -> None:
        self._rng = rng
        self.counts = Counts()
        self._free_ns = 0
        self._bad = False
        self.side = side
        self.set(side)

    def set(self, side: Side) -> None:
        """New settings from the next packet on; what is on its way keeps its time."""
        self.side = side
        self._bad = self._bad and side.burst_loss is not None
        self._queue_ns = round((side.queue_ms or DEFAULT_QUEUE_MS) * MS_NS)

    def restart(self, rng: random.Random) -> None:
        """A fresh generator, counts and burst state: the same seed gives the same fates again."""
        self._rng = rng
        self.counts = Counts()
        self._bad = False

    def offer(self, size_bytes: int, now_ns: int) -> tuple[int, ...]:
        """Times at which copies of this packet leave, ns; empty when it is lost."""
        side, counts = self.side, self.counts
        counts.offered += 1
        counts.offered_bytes += size_bytes
        start_ns = now_ns
        if side.rate_kbps:
            begin_ns = max(now_ns, self._free_ns)
            if begin_ns - now_ns > self._queue_ns:
                counts.lost_queue += 1
                return ()
            # 1 kbit/s is one bit a millisecond
            self._free_ns = begin_ns + math.ceil(size_bytes * 8 * MS_NS / side.rate_kbps)
            start_ns = self._free_ns
        if side.burst_loss is not None and self._burst_loses(side):
            counts.lost_burst += 1
            return ()
        if side.loss_pct and self._rng.random() * 100 < side.loss_pct:
            counts.lost += 1
            return ()
        times = [start_ns + self._delay_ns(side)]
        if side.duplicate_pct and self._rng.random() * 100 < side.duplicate_pct:
            counts.duplicated += 1
            times.append(start_ns + self._delay_ns(side))
        counts.delivered += 1
        spent_ns = times[0] - now_ns
        counts.delay_sum_ns += spent_ns
        counts.delay_square_sum_ns2 += spent_ns * spent_ns
        return tuple(times)

    def released(self, due_ns: int, now_ns: int) -> None:
        """A packet due at `due_ns` left now: how late the schedule was kept."""
        late_ns = now_ns - due_ns
        counts = self.counts
        counts.late_count += 1
        counts.late_sum_ns += late_ns
        counts.late_max_ns = max(counts.late_max_ns, late_ns)

    def _burst_loses(self, side: Side) -> bool:
        burst = side.burst_loss
        assert burst is not None
        chance = burst.p_exit_pct if self._bad else burst.p_enter_pct
        if self._rng.random() * 100 < chance:
            self._bad = not self._bad
        return self._bad and self._rng.random() * 100 < burst.loss_pct

    def _delay_ns(self, side: Side) -> int:
        if side.reorder_pct and self._rng.random() * 100 < side.reorder_pct:
            self.counts.overtook += 1
            return 0
        delay_ms = side.delay_ms
        if side.jitter_ms:
            delay_ms += side.jitter_ms * self._spread(side)
        return max(0, round(delay_ms * MS_NS))

    def _spread(self, side: Side) -> float:
        if side.distribution == "uniform":
            return 2 * self._rng.random() - 1
        while abs(value := self._rng.gauss(0.0, 1.0)) > NORMAL_CUT:
            pass
        return value
