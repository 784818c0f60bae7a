"""Bulk payloads prove themselves: every corruption, loss and duplication is seen and counted as such."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqsitl.bulk import MIN_SIZE_BYTES, BulkStream, BulkVerifier
from pqsitl.errors import SpecError


def counts(verifier: BulkVerifier, expected: int | None = None) -> tuple[int, int, int, int]:
    return verifier.count, verifier.corrupt, verifier.duplicate, verifier.missing(expected)


def feed(payloads: list[bytes], **expected: int) -> BulkVerifier:
    verifier = BulkVerifier(**expected)
    for payload in payloads:
        verifier.accept(payload)
    return verifier


@given(st.integers(0, 2**40), st.integers(MIN_SIZE_BYTES, 2000), st.randoms())
def test_intact_payloads_in_any_order_are_intact(seed: int, size: int, order: random.Random) -> None:
    stream = BulkStream(seed, size)
    payloads = [stream.payload(n) for n in range(30)]
    order.shuffle(payloads)
    assert {len(p) for p in payloads} == {size}
    assert counts(feed(payloads), 30) == (30, 0, 0, 0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 5000), st.integers(0, 1199), st.integers(1, 255))
def test_any_changed_byte_is_corrupt(seed: int, counter: int, place: int, change: int) -> None:
    payload = bytearray(BulkStream(seed, 1200).payload(counter))
    payload[place] ^= change
    verifier = feed([bytes(payload)])
    assert (verifier.corrupt, verifier.distinct) == (1, 0)


@given(st.integers(1, 1199))
def test_cut_and_padded_payloads_are_corrupt(cut: int) -> None:
    payload = BulkStream(1, 1200).payload(5)
    assert feed([payload[:cut]]).corrupt == 1
    assert feed([payload + b"\0"]).corrupt == 1


@given(st.sets(st.integers(0, 199), max_size=50), st.lists(st.integers(0, 199), max_size=30))
def test_loss_and_duplication_are_told_apart(lost: set[int], repeated: list[int]) -> None:
    stream = BulkStream(9, 64)
    arrived = [n for n in range(200) if n not in lost]
    again = [n for n in repeated if n not in lost]
    verifier = feed([stream.payload(n) for n in arrived + again])
    assert counts(verifier, 200) == (len(arrived) + len(again), 0, len(again), len(lost))
    highest = max(arrived)
    assert verifier.missing() == sum(n < highest for n in lost), (
        "without the sender's count the tail is unknown"
    )


def test_swapped_bodies_and_foreign_streams() -> None:
    stream = BulkStream(4, 1200)
    swapped = stream.payload(1)[:8] + stream.payload(2)[8:]
    assert feed([swapped]).corrupt == 1
    foreign = BulkStream(5, 1200).payload(0)
    assert feed([foreign]).corrupt == 0
    assert feed([foreign], expected_seed=4).corrupt == 1
    assert feed([BulkStream(4, 600).payload(0)], expected_seed=4, expected_size=1200).corrupt == 1
    assert feed([stream.payload(0)], expected_seed=4 + 2**32, expected_size=1200).corrupt == 0


def test_announcements_count_nowhere_and_sizes_have_limits() -> None:
    assert counts(feed([b"", b""])) == (0, 0, 0, 0)
    assert feed([b"x"]).corrupt == 1
    for size in (0, MIN_SIZE_BYTES - 1, 9000):
        with pytest.raises(SpecError):
            BulkStream(1, size)
