"""What the attacker makes, put before the tunnel itself: each kind raises the counter its table names."""

from __future__ import annotations

import random
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pqattack import bounds, handshakes
from pqattack.heard import Heard
from pqattack.payloads import datagrams
from pqattack.settings import Episode
from pqtunnel import packet, wire
from pqtunnel.config import HANDSHAKE_PORT, SEALED_PORT

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tunnel" / "tests" / "core"))

from core_kit import Lab

KIND_COUNTERS = {
    "flood": {"bad_header", "unknown_index"},
    "stray": {"bad_header", "unknown_index"},
    "bad-header": {"bad_header"},
    "forged": {"auth_failed"},
    "stray-auth": {"auth_failed"},
    "replay": {"replay"},
}


def heard(*sent: bytes) -> list[Heard]:
    words: dict[int, list[bytes]] = {}
    for datagram in sent:
        words.setdefault(struct.unpack(">I", datagram[:4])[0], []).append(datagram)
    return [Heard(word, tuple(held)) for word, held in words.items()]


@pytest.mark.parametrize("kind", KIND_COUNTERS)
def test_each_kind_is_refused_for_its_reason(kind: str) -> None:
    lab = Lab()
    drone, gcs = lab.sessions()
    sent = [drone.seal_data(bytes([n]) * 40)[0] for n in range(9)]
    for datagram in sent:
        assert gcs.receive(datagram, 1).kind == packet.DATA
    before = dict(lab.gcs_counters)
    episode = Episode.parse({"kind": kind, "for_s": 1, "rate_pps": 5, "target": "gcs", "seed": 2})
    made = datagrams(episode, heard(*sent), random.Random(1))
    for datagram in made:
        assert gcs.receive(datagram, 2_000_000_000).kind == 0, "nothing of it is delivered"
    raised = {name for name, value in lab.gcs_counters.items() if value != before.get(name, 0)}
    assert raised == KIND_COUNTERS[kind]
    # and what the peer sends afterwards still arrives
    assert gcs.receive(drone.seal_data(b"still here")[0], 3).payload == b"still here"


def test_a_stale_epoch_is_counted_as_old_or_seen() -> None:
    lab = Lab()
    drone, gcs = lab.sessions()
    old = [drone.seal_data(b"old")[0] for _ in range(3)]
    for datagram in old:
        gcs.receive(datagram, 1)
    mine, theirs = lab.handshake()
    drone.install(replace(mine, epoch=1, rx_index=1, tx_index=2), 2)
    gcs.install(replace(theirs, epoch=1, rx_index=2, tx_index=1), 2)
    new = drone.seal_data(b"new")[0]
    assert gcs.receive(new, 3).payload == b"new"
    made = datagrams(Episode("stale-epoch", 1, rate_pps=5), heard(*old, new), random.Random(1))
    assert made == old
    assert [gcs.receive(made[0], 4).reason for _ in range(2)] == ["duplicate", "replay"]
    assert gcs.receive(made[1], 10_000_000_000).reason == "old_epoch"


def test_ports_and_frames_are_the_tunnels_own() -> None:
    assert bounds.port_of("drone") == bounds.port_of_peer("gcs") == SEALED_PORT["drone"]
    assert bounds.port_of("gcs") == bounds.port_of_peer("drone") == SEALED_PORT["gcs"]
    assert bounds.HANDSHAKE_PORT == HANDSHAKE_PORT
    assert handshakes.CHALLENGE_BYTES == wire.HEADER_BYTES + wire.CHALLENGE_BODY_BYTES
    assert handshakes.HELLO_BODY_BYTES == wire.HELLO_BODY_BYTES
    frame = handshakes.hello(random.Random(1))
    hello = wire.parse_hello(frame[wire.HEADER_BYTES :])
    assert hello.purpose == wire.PURPOSE_NEW and hello.epoch == 0
    assert hello.encode_unauthenticated() + hello.mac == frame
