"""Replay window and sequence reconstruction, against a model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pqspec.replay import WINDOW_PACKETS, ReplayWindow


def feed(window: ReplayWindow, sequences: list[int]) -> list[int]:
    """Sequences accepted, given by their low 32 bits, as a receiver would."""
    accepted = []
    for sequence in sequences:
        found = window.reconstruct(sequence & 0xFFFF_FFFF)
        if not window.seen(found):
            window.accept(found)
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
    window.accept(5)
    for low32 in (0xFFFF_FFFF, 2**31, 6, 5, 0):
        window.seen(window.reconstruct(low32))
    assert window.next_sequence == 6
    assert not window.seen(4) and window.seen(5) and not window.seen(6)


def test_window_holds_at_least_1024() -> None:
    window = ReplayWindow()
    window.accept(WINDOW_PACKETS)
    assert WINDOW_PACKETS >= 1024
    assert not window.seen(1) and window.seen(0)
    window.accept(1)
    assert window.seen(1)


def test_a_jump_clears_the_window() -> None:
    window = ReplayWindow()
    for sequence in range(10):
        window.accept(sequence)
    window.accept(10 + 10 * WINDOW_PACKETS)
    assert window.seen(9) and not window.seen(9 * WINDOW_PACKETS + 11)
