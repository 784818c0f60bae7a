"""What a reader is, and the arithmetic that the readers share.

A reader never writes a zero for something it does not know: it leaves the field out, or raises
SensorUnavailable with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import Sample


@dataclass(frozen=True)
class Instant:
    """The time of one tick on both clocks, in nanoseconds, and the tick's index in the schedule."""

    index: int
    monotonic_ns: int
    realtime_ns: int


class Reader(Protocol):
    """One sensor of the host."""

    @property
    def name(self) -> str:
        """Name in `pq_sensor` and in `facts`."""
        ...

    @property
    def period_s(self) -> float:
        """Least time between two readings; 0 reads at every tick."""
        ...

    def read(self, now: Instant) -> Sequence[Sample]:
        """Samples of this instant (possibly none while a rate has no base yet).

        Raises SensorUnavailable when the sensor has no value.
        """
        ...


class Missing:
    """A sensor that this host does not have: its reason is told, and it never yields a sample."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        self.period_s = 0.0

    def read(self, now: Instant) -> Sequence[Sample]:
        """Always raises SensorUnavailable with the reason given at construction."""
        raise SensorUnavailable(self.reason)


class Rate:
    """Share of one core from a cumulative CPU time: two readings make one value."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def reset(self) -> None:
        """Forget the base, so that a gap is not averaged over."""
        self._last = None

    def percent(self, cpu_ns: int, monotonic_ns: int) -> float | None:
        """Percent of one core since the last call; None for the first call or when time stood still."""
        last, self._last = self._last, (cpu_ns, monotonic_ns)
        if last is None:
            return None
        used_ns, passed_ns = cpu_ns - last[0], monotonic_ns - last[1]
        if passed_ns <= 0 or used_ns < 0:
            return None
        return round(100.0 * used_ns / passed_ns, 3)
