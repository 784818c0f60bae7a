"""A handshake's wall as three parts at each end: work, waiting for the peer, waiting for a processor.

Work is the processor time of the thread that made the handshake, waiting for a processor what the scheduler
counts as runnable but not running (both in the wall's own span row, docs/AGENT.md), waiting for the peer the
rest: the thread slept, for the network and what lies behind it. The scheduler is read just outside the wall,
so that the two may exceed a wall without any sleep by a few microseconds; the rest is then 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pqevidence.record.raw import Span
from pqevidence.record.system import Telemetry

BEFORE_MEASURED = "recorded before this was measured"
#: cumulative, ns
QUEUE = ("pq_cpu", "process_runqueue_ns")


class Wall(Protocol):
    """What a wall's span row tells; as in `record.raw.Span`."""

    @property
    def duration_ns(self) -> int: ...
    @property
    def cpu_ns(self) -> int | None: ...
    @property
    def runqueue_ns(self) -> int | None: ...
    @property
    def involuntary(self) -> int | None: ...


@dataclass(frozen=True)
class Parts:
    """One wall, ns."""

    work_ns: int
    queue_ns: int
    peer_ns: int
    involuntary: int


def parts_of(wall: Wall) -> Parts | None:
    """The parts of a wall; None where its host did not tell."""
    if wall.cpu_ns is None or wall.runqueue_ns is None:
        return None
    rest = max(0, wall.duration_ns - wall.cpu_ns - wall.runqueue_ns)
    return Parts(wall.cpu_ns, wall.runqueue_ns, rest, wall.involuntary or 0)


def why_unknown(walls: Iterable[Span]) -> str:
    """Why walls have no parts, in their host's own words."""
    told = dict.fromkeys(wall.scheduling_reason for wall in walls if wall.scheduling_reason)
    return "; ".join(told) or BEFORE_MEASURED


def tunnel_wait_pct(told: Telemetry | None, span_ns: tuple[int, int]) -> float | None:
    """Share of the span in which the tunnel's threads of one end waited for a processor, all together, per
    cent of one core."""
    return share_pct(told, QUEUE, span_ns, 1)


def share_pct(
    told: Telemetry | None, counter: tuple[str, str], span_ns: tuple[int, int], unit_ns: int
) -> float | None:
    """Per cent of the time between the first and the last reading in the span; None without two of them."""
    grown = told.growth(*counter, *span_ns) if told is not None else None
    return 100 * grown[0] * unit_ns / grown[1] if grown and grown[1] > 0 else None
