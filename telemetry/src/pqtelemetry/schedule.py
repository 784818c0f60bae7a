"""An absolute schedule: deadline k is start + k × period, so that no delay ever adds up.

Sans-IO: takes the clock's value, owns no clock and does not sleep.
Accounting: expected = got + late + lost, at any time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tick:
    """One sample to take now: its index, its deadline and how long after it we are."""

    index: int
    deadline_ns: int
    lateness_ns: int
    late: bool


class Schedule:
    """Deadlines on a monotonic clock, and what became of each.

    A sample is *got* when it starts at most half a period after its deadline, *late* when it starts
    later, and a deadline is *lost* when the next one has passed before its sample could start.
    """

    def __init__(self, start_ns: int, period_ns: int) -> None:
        if period_ns <= 0:
            raise ValueError("period_ns must be positive")
        self.start_ns = start_ns
        self.period_ns = period_ns
        self.got_count = 0
        self.late_count = 0
        self.lost_count = 0
        self._next_index = 0

    @property
    def expected_count(self) -> int:
        """Deadlines that have been dealt with so far."""
        return self._next_index

    @property
    def taken_count(self) -> int:
        """Samples taken, on schedule or late."""
        return self.got_count + self.late_count

    @property
    def next_deadline_ns(self) -> int:
        """Monotonic time before which nothing is due."""
        return self.start_ns + self._next_index * self.period_ns

    @property
    def next_index(self) -> int:
        """The deadline that comes next."""
        return self._next_index

    def pass_over(self, next_index: int, got_count: int, late_count: int, lost_count: int) -> None:
        """What a loop elsewhere made of the deadlines up to `next_index`.

        Raises ValueError where they do not add up.
        """
        if next_index - self._next_index != got_count + late_count + lost_count:
            raise ValueError("deadlines dealt with elsewhere do not add up")
        self._next_index = next_index
        self.got_count += got_count
        self.late_count += late_count
        self.lost_count += lost_count

    def take(self, now_ns: int) -> Tick | None:
        """The tick that is due at `now_ns`, or None; deadlines that nobody can meet any more are lost."""
        if now_ns < self.next_deadline_ns:
            return None
        index = (now_ns - self.start_ns) // self.period_ns
        self.lost_count += index - self._next_index
        deadline_ns = self.start_ns + index * self.period_ns
        lateness_ns = now_ns - deadline_ns
        late = 2 * lateness_ns > self.period_ns
        if late:
            self.late_count += 1
        else:
            self.got_count += 1
        self._next_index = index + 1
        return Tick(index, deadline_ns, lateness_ns, late)


class Stamps:
    """Realtime timestamps that never repeat, also when the clock is set back.

    A repeated timestamp would make InfluxDB overwrite a point. While the clock runs forward the stamp is
    the clock; after a step back it moves on by 1 ns past stamps that were issued before.
    """

    _REMEMBERED = 16_384  # 27 minutes at 10 Hz; older collisions would need the same nanosecond by chance

    def __init__(self) -> None:
        self._highest_ns = -(2**63)
        self._recent: dict[int, None] = {}

    def issue(self, now_ns: int) -> int:
        """A stamp at or just after `now_ns` that has not been issued before."""
        stamp_ns = now_ns
        if stamp_ns <= self._highest_ns:
            while stamp_ns in self._recent:
                stamp_ns += 1
        self._highest_ns = max(self._highest_ns, stamp_ns)
        self._recent[stamp_ns] = None
        if len(self._recent) > self._REMEMBERED:
            del self._recent[next(iter(self._recent))]
        return stamp_ns
