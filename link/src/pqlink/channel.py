"""The fate of one packet in one direction: lost, queued, delayed, doubled. Sans-IO; randomness is given.

Order of decisions, as on a radio: the transmitter's queue and rate, then the medium (loss, burst loss), then
the propagation (delay, jitter, overtaking), then doubling. Each packet draws its jitter by itself, as netem
does, so jitter beyond the spacing of packets reorders them. A trace takes the place of what it has columns
for; a packet meets the step that is in force when its transmission begins.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields

from pqlink.settings import DEFAULT_QUEUE_MS, NORMAL_CUT, NOTHING, Side
from pqlink.trace import Playback, Trace

MS_NS = 1_000_000


@dataclass
class Counts:
    """What became of the packets of one direction since the settings were put in place."""

    offered: int = 0
    offered_bytes: int = 0
    lost: int = 0
    lost_burst: int = 0
    lost_queue: int = 0
    lost_trace: int = 0
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
        self._begun_ns = 0
        self._last_out_ns = 0
        self.side = side
        self.set(side)

    def set(self, side: Side, trace: Trace | None = None) -> None:
        """New settings from the next packet on; what is on its way keeps its time.

        trace: the one that `side` names; it runs from the last `restart` on.
        """
        self.side = side
        self._bad = self._bad and side.burst_loss is not None
        self._queue_ns = round((side.queue_ms or DEFAULT_QUEUE_MS) * MS_NS)
        self._playback: Playback | None = None
        if trace is not None:
            assert side.trace is not None and side.trace.sha256 == trace.sha256
            self._playback = Playback(trace, side.trace.start_ms * MS_NS, side.trace.at_end == "loop")

    def restart(self, rng: random.Random, now_ns: int = 0) -> None:
        """A fresh generator, counts, transmitter and burst state, a trace from its beginning: the same
        seed and the same packets give the same fates again."""
        self._rng = rng
        self.counts = Counts()
        self._bad = False
        self._free_ns = self._last_out_ns = self._begun_ns = now_ns

    def offer(self, size_bytes: int, now_ns: int) -> tuple[int, ...]:
        """Times at which copies of this packet leave, ns; empty when it is lost."""
        side, counts, playback = self.side, self.counts, self._playback
        counts.offered += 1
        counts.offered_bytes += size_bytes
        begin_ns = start_ns = now_ns
        paced = playback is not None and playback.trace.rates_bit_s is not None
        if paced or side.rate_kbps:
            begin_ns = max(now_ns, self._free_ns)
            if begin_ns - now_ns > self._queue_ns:
                counts.lost_queue += 1
                return ()
            if playback is not None and paced:
                begun_ns = self._begun_ns
                self._free_ns = begun_ns + playback.sent_ns(begin_ns - begun_ns, size_bytes)
            else:
                # 1 kbit/s is one bit a millisecond
                self._free_ns = begin_ns + math.ceil(size_bytes * 8 * MS_NS / side.rate_kbps)
            start_ns = self._free_ns
        step = None if playback is None else playback.step(begin_ns - self._begun_ns)
        if playback is not None and step is not None and self._trace_loses(playback.trace, step):
            counts.lost_trace += 1
            return ()
        if side.burst_loss is not None and self._burst_loses(side):
            counts.lost_burst += 1
            return ()
        if side.loss_pct and self._rng.random() * 100 < side.loss_pct:
            counts.lost += 1
            return ()
        traced_ns = None if playback is None or step is None else playback.delay_ns(step)
        if traced_ns is None:
            times = [start_ns + self._delay_ns(side)]
        else:
            # a radio sends one packet after another: where its delay falls, none overtakes the one before
            times = [max(self._last_out_ns, start_ns + traced_ns)]
            self._last_out_ns = times[0]
        if side.duplicate_pct and self._rng.random() * 100 < side.duplicate_pct:
            counts.duplicated += 1
            times.append(times[0] if traced_ns is not None else start_ns + self._delay_ns(side))
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

    def _trace_loses(self, trace: Trace, step: int) -> bool:
        """0 and 100 are the trace's own word; between them the generator decides."""
        if trace.losses_pct is None:
            return False
        loss_pct = trace.losses_pct[step]
        return loss_pct >= 100 or (loss_pct > 0 and self._rng.random() * 100 < loss_pct)

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
