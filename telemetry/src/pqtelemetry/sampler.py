"""The sampler: schedule, collector, encoder and sinks put together; time and sinks are parameters.

Every tick becomes one block of lines; the same bytes go to the file and to Telegraf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pqtelemetry.collector import Collector
from pqtelemetry.line import FieldValue, Sample, Tags, encode
from pqtelemetry.readers.base import Instant
from pqtelemetry.schedule import Schedule, Stamps


class Clock(Protocol):
    """What the sampler needs of time."""

    def monotonic_ns(self) -> int:
        """A clock that never steps; deadlines are on it."""
        ...

    def realtime_ns(self) -> int:
        """CLOCK_REALTIME; timestamps are on it."""
        ...

    def wait_until(self, deadline_ns: int) -> bool:
        """Sleep until that monotonic time; False when the sampler shall end."""
        ...


class Store(Protocol):
    """Where the record goes."""

    last_error: str | None

    def append(self, data: bytes) -> bool:
        """True when all of `data` is stored."""
        ...


class Forwarder(Protocol):
    """Where the view goes."""

    dropped_count: int

    @property
    def reconnect_count(self) -> int:
        """Connections after the first."""
        ...

    def put(self, data: bytes, line_count: int) -> None:
        """Accept whole lines without waiting."""
        ...


@dataclass
class Sampler:
    """One resident sampler; `stored_count` counts ticks that are in the file."""

    schedule: Schedule
    collector: Collector
    clock: Clock
    store: Store
    common_tags: Tags
    forwarder: Forwarder | None = None
    stored_count: int = 0

    def __post_init__(self) -> None:
        self._stamps = Stamps()

    def step(self) -> bool:
        """Wait for the next deadline and take its sample; False when the clock says stop."""
        if not self.clock.wait_until(self.schedule.next_deadline_ns):
            return False
        monotonic_ns = self.clock.monotonic_ns()
        tick = self.schedule.take(monotonic_ns)
        if tick is not None:
            realtime_ns = self._stamps.issue(self.clock.realtime_ns())
            self._take(Instant(tick.index, monotonic_ns, realtime_ns))
        return True

    def run(self) -> None:
        """Sample until the clock says stop."""
        while self.step():
            pass

    def _take(self, now: Instant) -> None:
        samples = self.collector.collect(now)
        # What the last append met; a disk that refuses cannot hold its own report, Telegraf can.
        problem = self.store.last_error
        samples += self.collector.report("store", problem and f"telemetry file: {problem}", now)
        samples.append(self._accounting())
        data = "".join([encode(sample, now.realtime_ns) + "\n" for sample in samples]).encode()
        if self.store.append(data):
            self.stored_count += 1
        if self.forwarder is not None:
            self.forwarder.put(data, len(samples))

    def _accounting(self) -> Sample:
        # A line that can be read in the file is stored, so it counts its own tick.
        fields: dict[str, FieldValue] = {
            "expected_count": self.schedule.expected_count,
            "got_count": self.schedule.got_count,
            "late_count": self.schedule.late_count,
            "lost_count": self.schedule.lost_count,
            "stored_count": self.stored_count + 1,
        }
        if self.forwarder is not None:
            fields["telegraf_dropped_count"] = self.forwarder.dropped_count
            fields["telegraf_reconnect_count"] = self.forwarder.reconnect_count
        return Sample("pq_sampler", fields, self.common_tags)
