"""Switches read off ledgers that were written by hand."""

from __future__ import annotations

from pqtunnel.blackout import EPOCH_SHIFT, largest_gap_ns, switches

MS = 1_000_000


def key(epoch: int, sequence: int) -> int:
    return epoch << EPOCH_SHIFT | sequence


def test_gap_late_and_lost_packets_are_ascribed_to_their_switch() -> None:
    sent = [(number * 3 * MS, key(number // 100, number % 100)) for number in range(300)]
    lost = {key(1, 40), key(2, 3)}  # far from a switch; close to one
    received = [(at_ns + MS, one) for at_ns, one in sent if one not in lost]
    received[99] = (sent[99][0] + 10 * MS, key(0, 99))  # comes after three packets of epoch 1
    first, second = switches(
        [one for _, one in sent], [at for at, _ in sent],
        [one for _, one in received], [at for at, _ in received], span_ns=100 * MS,
    )  # fmt: skip
    assert (first.epoch, first.late, first.lost) == (1, 1, 0)
    assert (second.epoch, second.late, second.lost) == (2, 0, 1)
    assert first.gap_ns == 6 * MS  # where packet 99 should have been
    assert second.gap_ns == 6 * MS and second.send_gap_ns == 3 * MS
    assert first.at_ns == 301 * MS
    assert first.added_ns == 9 * MS and second.added_ns == 0


def test_no_switch_without_a_second_epoch() -> None:
    assert switches([], [], [], []) == []
    assert switches([key(4, 0), key(4, 1)], [0, 1], [key(4, 0), key(4, 1)], [2, 3]) == []
    assert largest_gap_ns([5]) == 0 and largest_gap_ns([1, 2, 7]) == 5
