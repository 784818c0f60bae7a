"""The book of rekey secrets holds what lives, and nothing that was never confirmed takes its place."""

from __future__ import annotations

from dataclasses import replace

from core_kit import Lab

from pqtunnel.epochs import EpochBook
from pqtunnel.handshake import Established


def epochs(lab: Lab, count: int) -> list[Established]:
    _, made = lab.handshake()
    return [
        replace(made, epoch=number, session_id=bytes([number + 1]) * 16, rekey_secret=bytes([number]) * 32)
        for number in range(count)
    ]


def test_previous_current_and_next_are_known(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 5)
    assert book.newest is None and book.rekey_from() is None and book.basis(made[0].session_id) is None
    book.add(made[0], None)
    for number in range(1, 5):
        book.add(made[number], number - 1)
        known = [one.epoch for one in made if book.basis(one.session_id) is not None]
        assert known == list(range(max(0, number - 2), number + 1))
    basis, start = book.basis(made[3].session_id), book.rekey_from()
    assert basis is not None and start is not None
    assert (basis.drone_id, basis.epoch, basis.rekey_secret) == (made[3].peer_key_id, 3, bytes([3]) * 32)
    assert (start.session_id, start.epoch, start.rekey_secret) == (made[4].session_id, 4, bytes([4]) * 32)
    book.clear()
    assert book.newest is None and book.basis(made[4].session_id) is None


def test_epochs_never_heard_do_not_push_a_confirmed_one_out(lab: Lab) -> None:
    book, made = EpochBook(), epochs(lab, 4)
    book.add(made[0], None)
    book.add(made[1], 0)
    for attempt in range(20):  # the drone never learns that these completed: epoch 1 stays the one sent on
        book.add(replace(made[2], session_id=bytes([100 + attempt]) * 16), 1)
    assert book.basis(made[0].session_id) and book.basis(made[1].session_id)
    assert book.basis(bytes([119]) * 16) and not book.basis(bytes([118]) * 16)
