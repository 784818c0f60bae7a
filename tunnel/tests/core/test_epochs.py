"""The book of rekey secrets holds what may be rekeyed, and nothing that was never confirmed takes its
place."""

from __future__ import annotations

import gc
from dataclasses import replace

from core_kit import Lab

from pqtunnel.epochs import EpochBook
from pqtunnel.handshake.established import Established


def epochs(lab: Lab, count: int) -> list[Established]:
    _, made = lab.handshake()
    return [
        replace(
            made,
            epoch=number,
            rx_index=number,
            session_id=bytes([number + 1]) * 16,
            rekey_secret=bytes([number]) * 32,
        )
        for number in range(count)
    ]


def names(book: EpochBook, made: list[Established]) -> list[int]:
    return [one.epoch for one in made if book.basis(one.session_id) is not None]


def test_the_gcs_knows_the_one_sent_on_and_the_next(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 5)
    assert book.newest is None and book.rekey_from() is None and book.basis(made[0].session_id) is None
    book.add(made[0], None)
    for number in range(1, 5):
        book.add(made[number], number - 1)
        assert names(book, made) == [number - 1, number]
    basis, start = book.basis(made[3].session_id), book.rekey_from()
    assert basis is not None and start is not None
    assert (basis.drone_id, basis.epoch, basis.rekey_secret) == (made[3].peer_key_id, 3, bytes([3]) * 32)
    assert (start.session_id, start.epoch, start.rekey_secret) == (made[4].session_id, 4, bytes([4]) * 32)
    book.clear()
    assert book.newest is None and book.basis(made[4].session_id) is None


def test_once_the_next_is_heard_the_one_before_is_forgotten(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 3)
    book.add(made[0], None)
    book.settle(None)
    book.add(made[1], 0)
    book.settle(0)  # not heard yet: FinishedGcs may be lost, and the drone rekeys from epoch 0 again
    assert names(book, made) == [0, 1]
    again = replace(made[1], session_id=bytes([99]) * 16, rx_index=99)
    book.add(again, 0)
    assert names(book, [made[0], again]) == [0, 1] and book.basis(made[1].session_id) is None
    book.settle(99)
    assert names(book, [*made, again]) == [1]
    book.settle(7)  # an epoch that is not in the book says nothing about those that are
    assert names(book, [again]) == [1]


def test_the_drone_keeps_its_newest_alone(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 3)
    for one in made:
        book.add(one, one.epoch)  # it sends on what it has installed
        assert names(book, made) == [one.epoch]


def test_nothing_but_the_rekey_secret_is_kept_of_an_epochs_keys(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 1)[0]
    book.add(made, None)
    found: list[object] = []
    seen: set[int] = set()
    wanted = [book]
    while wanted:
        one: object = wanted.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        found.append(one)
        wanted.extend(gc.get_referents(one))
    assert made.rekey_secret in found and made.session_id in found
    keys = made.keys
    for secret in (made, keys, keys.send_key, keys.receive_key, keys.send_iv, made.exporter):
        assert not any(secret is one for one in found)


def test_a_session_that_was_replaced_under_the_same_number_is_unknown(lab: Lab) -> None:
    """The drone restarted: its epoch 0 meets the epoch 0 that this end sends on."""
    book, first = EpochBook(), epochs(lab, 1)[0]
    book.add(first, None)
    book.settle(first.rx_index)
    for attempt in range(1, 20):
        anew = replace(first, session_id=bytes([100 + attempt]) * 16, rx_index=attempt)
        book.add(anew, first.rx_index)
        book.settle(first.rx_index)  # not heard yet
        assert book.basis(first.session_id) and book.basis(anew.session_id)
        assert len([n for n in range(1, 20) if book.basis(bytes([100 + n]) * 16)]) == 1
    book.settle(anew.rx_index)
    assert book.basis(anew.session_id) and book.basis(first.session_id) is None


def test_epochs_never_heard_do_not_push_a_confirmed_one_out(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 4)
    book.add(made[0], None)
    book.add(made[1], 0)
    for attempt in range(20):  # the drone never learns that these completed: epoch 1 stays the one sent on
        book.add(replace(made[2], session_id=bytes([100 + attempt]) * 16), 1)
    assert book.basis(made[1].session_id)
    assert book.basis(bytes([119]) * 16) and not book.basis(bytes([118]) * 16)
