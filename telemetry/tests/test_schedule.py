"""The schedule never drifts and accounts for every deadline; stamps never repeat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtelemetry.schedule import Schedule, Stamps

PERIOD_NS = 100_000_000


@given(st.lists(st.integers(0, 5 * PERIOD_NS), max_size=60), st.integers(0, 10**12))
def test_every_deadline_is_got_late_or_lost(delays_ns: list[int], start_ns: int) -> None:
    schedule = Schedule(start_ns, PERIOD_NS)
    now_ns = start_ns
    taken: list[int] = []
    for delay_ns in delays_ns:
        now_ns = max(now_ns, schedule.next_deadline_ns) + delay_ns
        tick = schedule.take(now_ns)
        assert tick is not None
        taken.append(tick.index)
        assert tick.deadline_ns == start_ns + tick.index * PERIOD_NS
        assert 0 <= tick.lateness_ns < PERIOD_NS
        assert tick.late == (tick.lateness_ns > PERIOD_NS / 2)
        assert schedule.expected_count == schedule.got_count + schedule.late_count + schedule.lost_count
        assert schedule.expected_count == (now_ns - start_ns) // PERIOD_NS + 1
    assert taken == sorted(set(taken))
    assert schedule.taken_count == len(taken)
    # Deadlines stay on the grid whatever happened before: no drift.
    assert (schedule.next_deadline_ns - start_ns) % PERIOD_NS == 0


def test_nothing_is_due_before_its_deadline() -> None:
    schedule = Schedule(1000, PERIOD_NS)
    assert schedule.take(999) is None
    assert schedule.expected_count == 0
    assert schedule.take(1000) is not None
    assert schedule.take(1000 + PERIOD_NS - 1) is None


def test_on_time_late_and_lost_by_hand() -> None:
    schedule = Schedule(0, PERIOD_NS)
    for now_ms in (0, 150, 200, 460, 560):
        schedule.take(now_ms * 1_000_000)
    # 0 got; 150 is deadline 100, exactly half late: got; 200 got; 300 lost; 460 is 400 late; 560 is 500 late
    assert (schedule.got_count, schedule.late_count, schedule.lost_count) == (3, 2, 1)
    assert schedule.expected_count == 6


def test_a_schedule_needs_a_period() -> None:
    with pytest.raises(ValueError, match="period"):
        Schedule(0, 0)


@given(st.lists(st.integers(0, 40), max_size=200))
def test_stamps_never_repeat_also_when_the_clock_is_set_back(clock: list[int]) -> None:
    stamps = Stamps()
    issued = [stamps.issue(now) for now in clock]
    assert len(set(issued)) == len(issued)
    assert all(stamp >= now for stamp, now in zip(issued, clock, strict=True))


def test_a_clock_that_was_set_back_is_followed_not_held() -> None:
    stamps = Stamps()
    assert [stamps.issue(now) for now in (1000, 2000, 500, 500, 1000)] == [1000, 2000, 500, 501, 1001]
