"""Ephemeral key pool: once, erased, bounded, thread-safe; and what a pooled handshake says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from core_kit import MLKEM, CountingRng, FakePrimitives, Lab, converse

from pqtunnel import errors
from pqtunnel.primitives import KemKeyPair
from pqtunnel.primitives.pool import MAX_TARGET, KeyPool
from pqtunnel.trace import Tracer

TOKEN = MLKEM.kem.token


def filled(count: int) -> tuple[KeyPool, FakePrimitives]:
    primitives = FakePrimitives()
    pool = KeyPool(primitives)
    pool.set_target(TOKEN, count)
    pool.fill()
    return pool, primitives


def test_each_pair_is_handed_out_once() -> None:
    pool, primitives = filled(8)
    taken = [pool.take(TOKEN) for _ in range(8)]
    assert all(pair is not None for pair in taken)
    assert len({pair.public for pair in taken if pair}) == 8 == primitives.kem(TOKEN).generated
    assert pool.take(TOKEN) is None and pool.missed == 1 and pool.taken == pool.made == 8


def test_an_unknown_or_unwanted_kem_gives_nothing_and_is_no_miss() -> None:
    pool, _ = filled(0)
    assert pool.take("mlkem512") is None and pool.take(TOKEN) is None and pool.missed == 0


def test_targets_are_bounded() -> None:
    pool, _ = filled(0)
    for count in (-1, MAX_TARGET + 1):
        with pytest.raises(errors.KeyMaterialError, match="was asked for"):
            pool.set_target(TOKEN, count)


def test_shrinking_and_clearing_erase() -> None:
    pool, primitives = filled(0)
    made: list[KemKeyPair] = []
    kem = primitives.kem(TOKEN)
    original = kem.generate

    def generate() -> KemKeyPair:
        made.append(original())
        return made[-1]

    kem.generate = generate  # type: ignore[method-assign]
    pool.set_target(TOKEN, 6)
    pool.fill()
    pool.set_target(TOKEN, 2)
    assert pool.count(TOKEN) == 2 and sum(not any(pair.secret) for pair in made) == 4
    pool.clear()
    assert pool.count(TOKEN) == 0 and all(not any(pair.secret) for pair in made)
    pool.fill()
    assert len(made) == 6


@pytest.mark.parametrize("gone", [lambda pool: pool.set_target(TOKEN, 0), KeyPool.clear])
def test_a_pair_made_while_its_target_went_is_erased(gone: Callable[[KeyPool], None]) -> None:
    pool, primitives = filled(0)
    kem = primitives.kem(TOKEN)
    original, late = kem.generate, []

    def generate() -> KemKeyPair:
        gone(pool)
        late.append(original())
        return late[-1]

    kem.generate = generate  # type: ignore[method-assign]
    pool.set_target(TOKEN, 1)
    pool.fill()
    assert pool.count(TOKEN) == 0 and not any(late[0].secret)


def test_many_threads_never_share_a_pair() -> None:
    pool, _ = filled(50)
    stop, got, lock = threading.Event(), [], threading.Lock()

    def take() -> None:
        mine = []
        while len(mine) < 200:
            pair = pool.take(TOKEN)
            if pair is not None:
                mine.append(pair.public)
        with lock:
            got.extend(mine)

    def refill() -> None:
        while not stop.is_set():
            pool.fill()
            pool.wait(0.001)

    filler = threading.Thread(target=refill)
    takers = [threading.Thread(target=take) for _ in range(4)]
    for thread in (filler, *takers):
        thread.start()
    for thread in takers:
        thread.join(20)
    stop.set()
    filler.join(5)
    assert len(got) == len(set(got)) == 800
    assert pool.count(TOKEN) <= 50


def test_wait_wakes_when_a_pair_is_taken() -> None:
    pool, _ = filled(1)
    assert pool.wait(0.0)  # the target was set
    assert not pool.wait(0.0)
    pool.take(TOKEN)
    assert pool.wait(0.0)


def test_pooled_handshake_agrees_erases_and_says_so(lab: Lab) -> None:
    pool = KeyPool(lab.primitives)
    pool.set_target(TOKEN, 2)
    pool.fill()
    lent: list[KemKeyPair] = []

    def source(token: str) -> KemKeyPair | None:
        pair = pool.take(token)
        if pair is not None:
            lent.append(pair)
        return pair

    said = []
    for number in range(3):
        tracer = Tracer(host="gcs")
        drone = lab.drone(rng=CountingRng(b"drone %d" % number))
        gcs = lab.gcs(key_source=source, tracer=tracer, rng=CountingRng(b"gcs %d" % number))
        converse(drone, gcs)
        assert drone.established is not None and gcs.established is not None
        assert drone.established.keys.send_key == gcs.established.keys.receive_key
        tracer.finish()
        said.append({row["keygen"] for row in tracer.rows()})
    assert said == [{"pooled"}, {"pooled"}, {"cold"}]
    assert len(lent) == 2 and all(not any(pair.secret) for pair in lent)
    assert lab.gcs_counters["hs_keygens"] == 1 and lab.gcs_counters["hs_completed"] == 3


def test_a_stranger_takes_nothing_from_the_pool(lab: Lab) -> None:
    asked: list[str] = []

    def source(token: str) -> KemKeyPair | None:
        asked.append(token)
        return None

    with pytest.raises(errors.BadMac):
        converse(lab.drone(psk=type(lab.psk)(b"stranger", bytes(32))), lab.gcs(key_source=source))
    with pytest.raises(errors.PolicyRefused):
        converse(lab.drone(), lab.gcs(key_source=source, accepted={"other"}))
    assert asked == []
