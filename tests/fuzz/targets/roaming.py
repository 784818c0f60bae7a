"""Control payloads inside sealed packets: path challenges and answers, rekey requests."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from reader import Reader

from pqspec.path import CHALLENGE_EVERY_NS, CHALLENGE_VALID_NS, TOKEN_BYTES, Address, PathState
from pqtunnel import packet
from pqtunnel.rekey import parse_request
from targets import Target, either, scene

PLACES: tuple[Address, ...] = (("198.18.2.20", 46012), ("198.18.2.20", 9), ("198.18.2.99", 46012))


class _Tokens:
    """Numbered tokens, so that the fuzzer can answer with a right one."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, count: int) -> bytes:
        self.made += 1
        return self.made.to_bytes(count, "big")


class _Both:
    """The Python path state and, where its wheel is, the native one: same calls, same answers."""

    def __init__(self, peer: Address | None) -> None:
        self.states: list[Any] = [PathState(peer, _Tokens())]
        if find_spec("pq_core"):
            import pq_core

            self.states.append(pq_core.PathState(peer, _Tokens()))

    def call(self, name: str, *arguments: Any) -> Any:
        answers = [getattr(state, name)(*arguments) for state in self.states]
        plain = [tuple(answer) if isinstance(answer, tuple) else answer for answer in answers]
        assert all(answer == plain[0] for answer in plain), f"{name}: {plain}"
        assert len({state.peer for state in self.states}) == 1, f"{name}: the peers differ"
        return plain[0]


def path(data: bytes) -> None:
    """The peer moves only to an address that was challenged, by this very token, at most 3 s ago; challenges
    go to the sender of a newest authentic packet alone, at most one in 100 ms."""
    reader = Reader(data)
    peer: Address | None = PLACES[0] if reader.u8() & 1 else None
    both, now_ns = _Both(peer), 1
    asked: dict[tuple[Address, bytes], int] = {}
    last_ns = -CHALLENGE_EVERY_NS
    while reader.left:
        operation, place = reader.u8() % 4, PLACES[reader.u8() % len(PLACES)]
        if operation == 0:
            now_ns += reader.u16() * 1_000_000
        elif operation == 1:
            newest = bool(reader.u8() & 1)
            challenge = both.call("on_authentic", place, newest, now_ns)
            if challenge is not None:
                assert newest and challenge[0] == place != peer and len(challenge[1]) == TOKEN_BYTES
                assert now_ns - last_ns >= CHALLENGE_EVERY_NS, "challenges come too fast"
                last_ns = now_ns
                asked.setdefault((place, challenge[1]), now_ns)
        else:
            token = reader.u8().to_bytes(TOKEN_BYTES, "big") if operation == 2 else reader.take(12)
            if both.call("on_response", place, token, now_ns):
                made_ns = asked.pop((place, token))  # a KeyError: nobody was asked that
                assert now_ns - made_ns <= CHALLENGE_VALID_NS, "an answer to what had run out"
                peer = place
        assert both.states[0].peer == peer, "the peer moved without an answer"


def rekey_request(data: bytes) -> None:
    """What is understood is written again as the same bytes; what is not is nothing, never an error."""
    found = parse_request(data)
    if found is None:
        return
    code = packet.SAME_SUITE if found.suite is None else found.suite.wire_code
    assert packet.rekey_request(data[0], code) == data


def _path_seeds() -> dict[str, bytes]:
    move = b"\x01\x02\x01\x02\x02\x01"
    return {
        "seed-move": b"\x01" + move,
        "seed-late": b"\x01\x01\x02\x01\x00\x00\x10\x00\x02\x02\x01",
        "seed-other": b"\x00\x01\x02\x01\x02\x01\x01" + move,
        "seed-repeat": b"\x01" + b"\x01\x02\x01\x00\x00\x00\x65" * 4 + b"\x02\x02\x01",
    }


def _request_seeds() -> dict[str, bytes]:
    return {
        "seed-due": b"\x01\0\0\0",
        "seed-asked": b"\x02\x02\x01\x02",
        "seed-unknown": b"\x02\xee\xee\xee",
        "seed-short": b"\x01",
    }


TARGETS = {
    "control-frames": Target(
        "payloads inside sealed packets: path challenges and responses (both planes), rekey requests",
        either(path, rekey_request),
        lambda: scene(0, _path_seeds()) | scene(1, _request_seeds()),
        (
            "spec/src/pqspec/path.py",
            "tunnel/src/pqtunnel/rekey.py",
            "tunnel/src/pqtunnel/packet.py",
            "tunnel/core/src/path.rs",
        ),
        limit=512,
    ),
}
