"""When a time may be printed: the one limit for what a thread may have waited for a processor within it.

A figure is disturbed where it would be smaller by more than `LIMIT_SHARE` of itself, and by more than
`LIMIT_NS`, had no thread waited for a processor. Both are asked of the very statistic that is printed: a
median of thirty handshakes bears one that was held up, their mean does not. The campaign, its records,
`pqlab doctor`, reports, `verify` and the bench ask this module and no load average: a machine with idle cores
is quiet whatever else it does. docs/STATISTICS.md, "Quiet", says why the limits are what they are.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from pqbase.documents import Json, whole_of
from pqbase.stats import quantile7
from pqtunnel.scheduling import Meter, thread_meter

FOREIGN_LIMIT_PCT: Final = 10.0
"""Of one core: what programs beside the lab may use where they leave it too few cores."""
STEAL_LIMIT_PCT: Final = 5.0
"""What the hypervisor may take."""
LIMIT_SHARE: Final = 0.05
"""Of the figure itself."""
LIMIT_NS: Final = 100_000
"""Absolutely: a wake-up on a quiet machine costs some 5 to 20 µs, and a short handshake has six of them."""
PIECE_BYTES: Final = 1 << 20
"""What a piece of the probe hashes: about half a millisecond, the length of a short handshake."""
PIECES: Final = 100
_PAUSE_S: Final = 0.004

Statistic = Callable[[Sequence[float]], float | None]


def median(values: Sequence[float]) -> float | None:
    """The statistic of most figures."""
    return quantile7(values, 0.5)


@dataclass(frozen=True)
class Waiting:
    """A figure as it is, and what of it was waiting for a processor, ns."""

    value_ns: float
    waited_ns: float

    @property
    def disturbed(self) -> bool:
        """More waiting than a printed figure may hold."""
        return self.waited_ns > max(LIMIT_NS, LIMIT_SHARE * self.value_ns)

    @property
    def sentence(self) -> str:
        """`12 % of it, 0.150 ms, was waiting for a processor`."""
        share = 100 * self.waited_ns / self.value_ns if self.value_ns > 0 else 100.0
        return f"{share:.0f} % of it, {self.waited_ns / 1e6:.3f} ms, was waiting for a processor"


def waiting_in(values_ns: Sequence[float], waits_ns: Sequence[float], statistic: Statistic) -> Waiting | None:
    """How much of `statistic(values)` would be gone had nobody waited; None of nothing.

    values_ns, waits_ns: of the same things in the same order. A wait longer than its value is all of it.
    """
    whole = statistic(values_ns)
    rest = statistic([max(0.0, value - wait) for value, wait in zip(values_ns, waits_ns, strict=True)])
    return None if whole is None or rest is None else Waiting(float(whole), float(whole) - float(rest))


@dataclass(frozen=True)
class Probe:
    """What short pieces of work of one thread took and waited: see `probe`."""

    pieces_count: int
    piece_median_ns: int | None
    waited_median_ns: int | None
    waited_mean_ns: int | None
    reason: str | None = None
    """Why nothing is known; None where it is."""

    @property
    def quiet(self) -> bool | None:
        """Whether a mean of such pieces could be printed; None where the host does not tell."""
        if self.piece_median_ns is None or self.waited_mean_ns is None:
            return None
        return not Waiting(self.piece_median_ns + self.waited_mean_ns, self.waited_mean_ns).disturbed

    @property
    def sentence(self) -> str:
        """`a thread waits 0.42 ms for a processor to work 0.50 ms`, or why nothing is known."""
        if self.piece_median_ns is None or self.waited_mean_ns is None:
            return self.reason or "nothing is known"
        waited_ms, work_ms = self.waited_mean_ns / 1e6, self.piece_median_ns / 1e6
        return f"a thread waits {waited_ms:.2f} ms for a processor to work {work_ms:.2f} ms"

    @classmethod
    def from_dict(cls, told: Mapping[str, object]) -> Probe:
        """Of an agent's answer; what it says of itself beside the figures is worked out again."""
        names = ("piece_median_ns", "waited_median_ns", "waited_mean_ns")
        piece, middle, mean = (None if told.get(name) is None else whole_of(told, name) for name in names)
        reason = None if told.get("reason") is None else str(told["reason"])
        return cls(whole_of(told, "pieces_count"), piece, middle, mean, reason)

    def as_dict(self) -> Json:
        """For a document, its judgement beside it."""
        return {**asdict(self), "quiet": self.quiet}


def probe(pieces: int = PIECES) -> Probe:
    """Work half a millisecond, sleep four, and so on: what a lab's thread would wait for a processor now.

    Takes half a second. A piece waited what the scheduler counts as runnable but not running since it went to
    sleep, or what its wall holds beyond its processor time: a limited container and a hypervisor that takes
    time show in the second alone.
    """
    with thread_meter() as meter:
        if meter.reason is not None:
            return Probe(0, None, None, None, meter.reason)
        block = os.urandom(PIECE_BYTES)
        rows = [_piece(meter, block) for _ in range(pieces + 1)][1:]
    walls, waits = [row[0] for row in rows], [row[1] for row in rows]
    work = [wall - min(wall, wait) for wall, wait in rows]
    middle, waited = median(work), median(waits)
    if middle is None or waited is None:
        raise ValueError("a probe has at least one piece")
    return Probe(len(walls), round(middle), round(waited), round(sum(waits) / len(waits)))


def _piece(meter: Meter, block: bytes) -> tuple[int, int]:
    """(wall without the sleep, waited), ns."""
    before = meter.begin()
    time.sleep(_PAUSE_S)
    start_ns, cpu_start_ns = time.perf_counter_ns(), meter.cpu_ns()
    hashlib.sha256(block).digest()
    cpu_end_ns, end_ns = meter.cpu_ns(), time.perf_counter_ns()
    after = meter.end()
    wall_ns = end_ns - start_ns
    if before is None or after is None or cpu_start_ns is None or cpu_end_ns is None:
        raise ValueError("a meter without a reason tells")
    asleep_and_awake_ns = after.runqueue_ns - before.runqueue_ns
    return wall_ns, max(asleep_and_awake_ns, wall_ns - (cpu_end_ns - cpu_start_ns))
