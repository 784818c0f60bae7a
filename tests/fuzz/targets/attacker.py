"""The attacker: control lines, what its tap hears, and what the tap's answers are read as."""

from __future__ import annotations

import json
import random

from reader import Reader

from pqattack.bins import SentBins
from pqattack.bounds import MAX_FOR_S, MAX_RATE_PPS
from pqattack.desk import HOLD_MAX_S, Desk
from pqattack.errors import RequestError
from pqattack.heard import KEPT, KEPT_WORDS, Ear, parse_told
from pqattack.payloads import datagrams
from pqattack.settings import LEARNING, Episode
from pqbase.errors import PqError
from pqbase.lines import parse
from targets import Target

DRONE, GCS = "198.18.2.20", "198.18.2.30"
_DOWN = b"\x45" + bytes(8) + b"\x11" + bytes(2) + bytes((198, 18, 2, 30, 198, 18, 2, 20))


class _Pretended:
    """An episode that is over at once."""

    def __init__(self) -> None:
        self.bins, self.failed, self.ended = SentBins(), 0, "deadline"

    def start(self) -> None:
        return

    def stop(self, why: str) -> None:
        return


def control(data: bytes) -> None:
    """Whatever is asked: an episode stays within its bounds, a hold within its own, a refusal has a hint."""
    desk, here, now_ns = Desk(), object(), 0
    for line in data.split(b"\n"):
        now_ns += 10_000_000
        try:
            request = parse(line)
            owner = str(request.get("owner"))
            if request.get("op") == "take":
                hold_s = request.get("hold_s", 1.0)
                desk.take(owner, here, float(hold_s) if isinstance(hold_s, int | float) else 1.0, now_ns)
            elif request.get("op") == "start":
                episode = Episode.parse(request.get("attack"))
                desk.admit(owner, episode)
                assert 0 < episode.rate_pps <= MAX_RATE_PPS and 0 < episode.for_s <= MAX_FOR_S
                assert episode.target in ("drone", "gcs")
                json.dumps(desk.begin(episode, _Pretended()).truth())
            elif request.get("op") == "release":
                desk.release(owner)
            else:
                desk.account(request.get("episode"))
        except PqError as error:
            assert error.code and error.hint
        except OverflowError:
            continue  # a whole number beyond any float, which the process's own shell refuses
        assert sum(done.episode.for_s for done in desk.episodes) <= MAX_FOR_S
        assert desk.next_ns is None or desk.next_ns <= now_ns + HOLD_MAX_S * 1e9
    desk.gone(here)
    assert desk.owner is None


def hearing(data: bytes) -> None:
    """Packets of any shape: memory stays bounded, what is told reads back, forgeries can be made of it."""
    ear, reader = Ear(DRONE, GCS), Reader(data)
    while reader.left:
        size = reader.u8()
        packet = reader.take(size) if size & 1 else _DOWN + b"\x9c\x40\xb3\xbc\x00" + reader.take(size + 30)
        ear.take(packet)
    heard = parse_told(json.loads(json.dumps(ear.told("drone"))))
    assert len(heard) <= KEPT_WORDS and all(len(h.datagrams) <= KEPT for h in heard)
    for kind in LEARNING:
        try:
            made = datagrams(Episode(kind, 1.0, rate_pps=1), heard, random.Random(1))
        except RequestError:
            continue
        assert made and all(len(datagram) >= 24 for datagram in made)


def _control_seeds() -> dict[str, bytes]:
    def lines(*requests: object) -> bytes:
        return b"".join(json.dumps(request).encode() + b"\n" for request in requests)

    flood = {"kind": "flood", "for_s": 2, "rate_pps": 20_000, "target": "drone", "path": "link", "seed": 3}
    pulses = {"kind": "pulsing", "for_s": 9, "pulse_on_ms": 200, "pulse_off_ms": 800}
    return {
        "seed-life": lines(
            {"op": "take", "owner": "c", "hold_s": 1},
            {"op": "start", "owner": "c", "attack": flood},
            {"op": "truth", "owner": "c", "episode": 1},
            {"op": "start", "owner": "c", "attack": pulses},
            {"op": "release", "owner": "c"},
        ),
        "seed-long": lines(
            {"op": "take", "owner": "c"},
            *[{"op": "start", "owner": "c", "attack": {**flood, "for_s": 90}}] * 3,
        ),
        "seed-odd": b'[]\n{"op":7}\n{"op":"start","attack":{"kind":"flood","for_s":1e999}}\n'
        b'{"op":"take","hold_s":1' + b"0" * 400 + b"}\n",
    }


def _hearing_seeds() -> dict[str, bytes]:
    sealed = b"\x48\x00\x00" + b"\x10\xab\xcd\xef\x00\x00\x00\x05" + bytes(60)
    return {"seed-down": b"\x28" + sealed * 3, "seed-odd": b"\x01\x45\x03abc\x29" + bytes(41)}


TARGETS = {
    "attack-control": Target(
        "requests to the attacker",
        control,
        _control_seeds,
        (
            "base/src/pqbase/lines.py",
            "attacker/src/pqattack/settings.py",
            "attacker/src/pqattack/desk.py",
        ),
        words=[
            b'"attack":{',
            b'"kind":"',
            b"handshake-flood",
            b'"rate_pps":',
            b'"for_s":',
            b"1e308",
            b"null",
        ],
    ),
    "attack-hearing": Target(
        "packets before the attacker's ear",
        hearing,
        _hearing_seeds,
        (
            "attacker/src/pqattack/heard.py",
            "attacker/src/pqattack/frames.py",
            "attacker/src/pqattack/payloads.py",
        ),
        limit=2048,
    ),
}
