"""Replay window and sequence reconstruction, against a model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pqspec.replay import DUPLICATE_NS, WINDOW_PACKETS, Judged, ReplayWindow

LATER_NS = 10 * DUPLICATE_NS


def feed(window: ReplayWindow, sequences: list[int]) -> list[int]:
    """Sequences accepted, given by their low 32 bits, as a receiver would."""
    accepted = []
    for sequence in sequences:
        found = window.reconstruct(sequence & 0xFFFF_FFFF)
        if window.judge(found, LATER_NS) is Judged.FRESH:
            window.accept(found, 0)
            accepted.append(found)
    return accepted


@given(st.lists(st.integers(0, 6000), max_size=300), st.sampled_from([0, 2**32 - 3000, 2**33 + 17]))
def test_accepts_each_once_within_the_window(offsets: list[int], base: int) -> None:
    window = ReplayWindow()
    window.next_sequence = base
    accepted = feed(window, [base + offset for offset in offsets])
    highest, expected = base - 1, []
    for offset in offsets:
        sequence = base + offset
        if sequence > highest or (highest - sequence < WINDOW_PACKETS and sequence not in expected):
            expected.append(sequence)
            highest = max(highest, sequence)
    assert accepted == expected


@given(st.integers(0, 2**40), st.integers(-(2**31), 2**31 - 1))
def test_reconstruction_is_the_nearest(next_sequence: int, distance: int) -> None:
    window = ReplayWindow()
    window.next_sequence = next_sequence
    sequence = next_sequence + distance
    if sequence >= 0:
        assert window.reconstruct(sequence & 0xFFFF_FFFF) == sequence


def test_reconstruction_below_zero_goes_forwards() -> None:
    assert ReplayWindow().reconstruct(0xFFFF_FFFF) == 0xFFFF_FFFF


def test_looking_moves_nothing() -> None:
    window = ReplayWindow()
    window.accept(5, 0)
    for low32 in (0xFFFF_FFFF, 2**31, 6, 5, 0):
        window.judge(window.reconstruct(low32), 0)
    assert window.next_sequence == 6
    assert [window.judge(sequence, 0) for sequence in (4, 5, 6)] == [Judged.FRESH, Judged.COPY, Judged.FRESH]


def test_window_holds_at_least_1024() -> None:
    window = ReplayWindow()
    window.accept(WINDOW_PACKETS, 0)
    assert WINDOW_PACKETS >= 1024
    assert window.judge(1, 0) is Judged.FRESH and window.judge(0, 0) is Judged.REPLAY
    window.accept(1, 0)
    assert window.judge(1, LATER_NS) is Judged.REPLAY


def test_a_jump_clears_the_window() -> None:
    window = ReplayWindow()
    for sequence in range(10):
        window.accept(sequence, 0)
    window.accept(10 + 10 * WINDOW_PACKETS, 0)
    assert window.judge(9, 0) is Judged.REPLAY and window.judge(9 * WINDOW_PACKETS + 11, 0) is Judged.FRESH


def test_the_second_copy_within_a_second_is_the_ways_and_every_other_a_replay() -> None:
    window = ReplayWindow()
    window.accept(7, 5 * DUPLICATE_NS)
    assert window.judge(7, 6 * DUPLICATE_NS) is Judged.COPY
    assert window.judge(7, 6 * DUPLICATE_NS + 1_000_000) is Judged.REPLAY
    window.accept_copy(7)
    assert window.judge(7, 5 * DUPLICATE_NS) is Judged.REPLAY


def test_it_remembers_no_more_than_it_must() -> None:
    window = ReplayWindow()
    for sequence in range(20 * WINDOW_PACKETS):
        window.accept(sequence, 0)
    assert len(window._once_ms) <= 2 * WINDOW_PACKETS
    newest = window.next_sequence - 1
    assert window.judge(newest - WINDOW_PACKETS + 1, 0) is Judged.COPY
    assert window.judge(newest - WINDOW_PACKETS, 0) is Judged.REPLAY
