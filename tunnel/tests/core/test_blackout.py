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
        [one for _, one in sent],
        [at for at, _ in sent],
        [one for _, one in received],
        [at for at, _ in received],
        span_ns=100 * MS,
    )
    assert (first.epoch, first.late, first.lost) == (1, 1, 0)
    assert (second.epoch, second.late, second.lost) == (2, 0, 1)
    assert first.gap_ns == 6 * MS  # where packet 99 should have been
    assert second.gap_ns == 6 * MS and second.send_gap_ns == 3 * MS
    assert first.at_ns == 301 * MS
    assert first.added_ns == 9 * MS and second.added_ns == 0


def test_switches_closer_than_their_spans_count_nothing_twice() -> None:
    """A rekey every 100 ms: what was lost, late or held up once is one switch's alone."""
    step, per_epoch = 5 * MS, 20
    sent = [(number * step, key(number // per_epoch, number % per_epoch)) for number in range(220)]
    lost = {key(4, 0), key(7, 11)}
    # one of epoch 2 comes 150 ms late, when two more have begun; everything of 605 to 640 ms comes at 641
    delay = {number: 150 * MS if number == 55 else MS for number in range(220)}
    delay |= {number: 641 * MS - number * step for number in range(121, 129)}
    arrived = [(at_ns + delay[number], one) for number, (at_ns, one) in enumerate(sent) if one not in lost]
    found = switches(
        [one for _, one in sent],
        [at for at, _ in sent],
        [one for _, one in arrived],
        [at for at, _ in arrived],
    )
    assert [one.epoch for one in found] == list(range(1, 11))
    assert {one.epoch: one.lost for one in found if one.lost} == {4: 1, 8: 1}
    assert {one.epoch: one.late for one in found if one.late} == {3: 1}
    assert {one.epoch: one.added_ns for one in found if one.added_ns} == {4: 149 * MS, 6: 35 * MS}


def test_a_pause_over_the_border_between_two_switches_is_the_later_ones() -> None:
    sent = [(number * 10 * MS, key(number // 20, number % 20)) for number in range(60)]
    # the border between both switches (200 and 400 ms) is at 300 ms: nothing comes from 291 to 330 ms
    arrived = [(at + (40 - (at // MS - 290)) * MS if 300 * MS <= at < 330 * MS else at, k) for at, k in sent]
    first, second = switches(
        [one for _, one in sent],
        [at for at, _ in sent],
        [one for _, one in arrived],
        [at for at, _ in arrived],
    )
    assert (first.added_ns, second.added_ns) == (0, 30 * MS)
    assert (first.gap_ns, second.gap_ns) == (10 * MS, 40 * MS)
    assert first.send_gap_ns == second.send_gap_ns == 10 * MS


def test_no_switch_without_a_second_epoch() -> None:
    assert switches([], [], [], []) == []
    assert switches([key(4, 0), key(4, 1)], [0, 1], [key(4, 0), key(4, 1)], [2, 3]) == []
    assert largest_gap_ns([5]) == 0 and largest_gap_ns([1, 2, 7]) == 5
