"""The datagrams of an episode, made ahead so that sending is nothing but sending. Pure; `rng` is seeded."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Final

from pqattack.errors import RequestError
from pqattack.heard import Heard
from pqattack.settings import Episode

#: made ahead; a longer episode sends them again and again
POOL: Final = 2048
#: forged sequences begin this far ahead of the newest heard, so that none of them is one that was seen
AHEAD: Final = 1 << 20
_HEADER: Final = struct.Struct(">II")
#: type nibbles that PROTOCOL.md does not define
_NO_TYPES: Final = (0, *range(7, 16))


def datagrams(episode: Episode, heard: list[Heard], rng: random.Random) -> list[bytes]:
    """Payloads to send in turn; at least one. Raises RequestError where the wire has not told enough."""
    makers: dict[str, Callable[[], list[bytes]]] = {
        "flood": lambda: _random(episode, rng),
        "pulsing": lambda: _random(episode, rng),
        "ramp": lambda: _random(episode, rng),
        "stray": lambda: _random(episode, rng),
        "bad-header": lambda: _bad_header(episode, rng),
        "forged": lambda: _forged(episode, heard, rng),
        "spoof": lambda: _forged(episode, heard, rng),
        "stray-auth": lambda: _forged(episode, heard, rng),
        "replay": lambda: _replayed(heard),
        "stale-epoch": lambda: _stale(heard),
    }
    if episode.kind not in makers:
        raise RequestError(f"{episode.kind} is not made of datagrams")
    return makers[episode.kind]()


def _random(episode: Episode, rng: random.Random) -> list[bytes]:
    return [rng.randbytes(episode.size_bytes) for _ in range(POOL)]


def _bad_header(episode: Episode, rng: random.Random) -> list[bytes]:
    """A type that does not exist: refused before anything else is looked at."""
    return [
        bytes((rng.choice(_NO_TYPES) << 4 | rng.randrange(16),)) + rng.randbytes(episode.size_bytes - 1)
        for _ in range(POOL)
    ]


def _forged(episode: Episode, heard: list[Heard], rng: random.Random) -> list[bytes]:
    """The header of a datagram to come, and a body that no key has made."""
    newest = _newest_data(heard)
    sequence = int.from_bytes(newest.datagrams[-1][4:8], "big") + AHEAD
    return [
        _HEADER.pack(newest.word, (sequence + number) & 0xFFFF_FFFF) + rng.randbytes(episode.size_bytes - 8)
        for number in range(POOL)
    ]


def _replayed(heard: list[Heard]) -> list[bytes]:
    """Whatever was heard under the newest epoch, in its own order."""
    newest = _newest_data(heard)
    same = [h for h in heard if (h.index, h.epoch) == (newest.index, newest.epoch)]
    return [datagram for h in same for datagram in h.datagrams]


def _stale(heard: list[Heard]) -> list[bytes]:
    """What was heard under epochs before the newest one."""
    newest = _newest_data(heard)
    older = [d for h in heard if h.index != newest.index for d in h.datagrams]
    if not older:
        raise RequestError(
            "nothing of an earlier epoch was heard",
            code="nothing_heard",
            hint="let the cell make several handshakes, or rekey before",
        )
    return older


def _newest_data(heard: list[Heard]) -> Heard:
    known = [h for h in heard if h.datagrams]
    if not known:
        raise RequestError(
            "no sealed datagram was heard yet",
            code="nothing_heard",
            hint="let the session run for a second before it is attacked",
        )
    return next((h for h in reversed(known) if h.is_data), known[-1])
