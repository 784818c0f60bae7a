"""What the tap keeps of the wire, and the datagrams that are made of it."""

from __future__ import annotations

import random
import socket
import struct

import pytest

from pqattack.errors import RequestError
from pqattack.heard import KEPT, KEPT_WORDS, Ear, parse_told, split_train
from pqattack.payloads import AHEAD, POOL, datagrams
from pqattack.settings import Episode

DRONE, GCS = "198.18.2.20", "198.18.2.30"


def sealed(
    sequence: int, kind: int = 1, epoch: int = 0, index: int = 0xABCDEF, body: bytes = bytes(40)
) -> bytes:
    return struct.pack(">II", kind << 28 | epoch << 24 | index, sequence) + body


def packet(source: str, target: str, port: int, payload: bytes, protocol: int = 17) -> bytes:
    head = bytearray(20)
    head[0], head[9] = 0x45, protocol
    head[12:16], head[16:20] = socket.inet_aton(source), socket.inet_aton(target)
    return bytes(head) + struct.pack("!HHHH", 4000, port, 8 + len(payload), 0) + payload


def heard(*payloads: bytes) -> Ear:
    ear = Ear(DRONE, GCS)
    for payload in payloads:
        ear.take(packet(GCS, DRONE, 46012, payload))
    return ear


def told(ear: Ear, target: str = "drone") -> list:  # type: ignore[type-arg]
    return parse_told(ear.told(target))


def test_only_sealed_datagrams_between_the_ends_are_kept() -> None:
    ear = Ear(DRONE, GCS)
    good = sealed(1)
    for other in (
        packet("198.18.2.60", DRONE, 46012, good),
        packet(GCS, DRONE, 46011, good),
        packet(DRONE, GCS, 46012, good),
        packet(GCS, DRONE, 46012, good, protocol=6),
        packet(GCS, DRONE, 46012, b"short"),
        b"",
        b"\x60" * 80,
    ):
        ear.take(other)
    assert ear.count == {"drone": 0, "gcs": 0}
    ear.take(packet(GCS, DRONE, 46012, good))
    ear.take(packet(DRONE, GCS, 46011, good))
    assert ear.count == {"drone": 1, "gcs": 1}
    assert [(h.index, h.epoch, h.is_data, h.datagrams) for h in told(ear)] == [(0xABCDEF, 0, True, (good,))]
    ear.forget()
    assert told(ear) == [] and ear.count == {"drone": 0, "gcs": 0}


def test_a_train_is_taken_apart() -> None:
    train = [sealed(n, body=bytes([n]) * 40) for n in range(5, 9)]
    assert split_train(b"".join(train)) == train
    assert split_train(b"".join(train) + sealed(9)[:30])[-1] == sealed(9)[:30], "the last may be shorter"
    assert told(heard(b"".join(train)))[0].datagrams == tuple(train)
    assert split_train(sealed(0xFFFF_FFFF)) == [sealed(0xFFFF_FFFF)]


def test_memory_is_bounded() -> None:
    ear = heard(*(sealed(n) for n in range(KEPT + 50)))
    newest = told(ear)[-1].datagrams
    assert len(newest) <= KEPT and newest[-1] == sealed(KEPT + 49)
    ear = heard(*(sealed(0, index=i) for i in range(KEPT_WORDS + 9)))
    assert len(told(ear)) == KEPT_WORDS
    assert told(ear)[-1].index == KEPT_WORDS + 8


def make(kind: str, ear: Ear, **more: object) -> list[bytes]:
    episode = Episode.parse({"kind": kind, "for_s": 1, "rate_pps": 5, **more})
    return datagrams(episode, told(ear), random.Random(4))


def test_forgeries_carry_the_newest_header_and_a_sequence_ahead() -> None:
    ear = heard(sealed(7, index=1), sealed(40, epoch=1, index=2), sealed(3, kind=2, epoch=1, index=2))
    for kind in ("forged", "spoof", "stray-auth"):
        made = make(kind, ear, size_bytes=100)
        assert len(made) == POOL and len(set(made)) == POOL
        assert {d[:4] for d in made} == {sealed(0, epoch=1, index=2)[:4]}
        assert {len(d) for d in made} == {100}
        assert struct.unpack(">I", made[0][4:8])[0] == 40 + AHEAD


def test_a_replay_is_a_copy_of_the_newest_epoch_alone() -> None:
    old, new = [sealed(n, index=1) for n in range(3)], [sealed(n, epoch=1, index=2) for n in range(4)]
    assert make("replay", heard(*old, *new)) == new
    assert make("stale-epoch", heard(*old, *new)) == old


def test_without_anything_heard_it_is_refused_and_says_what_to_do() -> None:
    for kind in ("forged", "replay", "stale-epoch"):
        with pytest.raises(RequestError) as caught:
            make(kind, Ear(DRONE, GCS))
        assert caught.value.code == "nothing_heard"
    with pytest.raises(RequestError, match="earlier epoch"):
        make("stale-epoch", heard(sealed(1)))


def test_random_ones_need_nothing_and_a_seed_repeats_them() -> None:
    nothing = Ear(DRONE, GCS)
    for kind in ("flood", "ramp", "stray", "bad-header"):
        assert make(kind, nothing) == make(kind, nothing)
        assert {len(d) for d in make(kind, nothing, size_bytes=64)} == {64}
    assert {d[0] >> 4 for d in make("bad-header", nothing)} == {0, *range(7, 16)}


def test_an_answer_of_the_tap_that_is_none() -> None:
    for rows in ([{"word": "x", "datagrams": []}], [{"word": 1}], [{"word": 1, "datagrams": ["zz"]}], 7):
        with pytest.raises(RequestError):
            parse_told(rows)
