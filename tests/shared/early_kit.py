"""The specification's ends know neither Retry nor EarlyHello; here they learn them (PROTOCOL.md, 4)."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from pqspec.handshake import DroneHandshake, GcsHandshake
from pqspec.keyschedule import mac
from pqtunnel import wire
from pqtunnel.errors import HandshakeError
from pqtunnel.handshake.identity import DronePsk, GcsPublicIdentity
from pqtunnel.primitives import Primitives
from pqtunnel.suites import get
from pqtunnel.trace import Tracer
from waiting import wait_until

RETRY = bytes.fromhex("17000000")
CHALLENGE_BYTES = 69
EARLY_HEADER = bytes.fromhex("18000085")


def exactly(sock: socket.socket, count: int) -> bytes:
    """So many bytes, or those before the end."""
    got = b""
    while len(got) < count and (piece := sock.recv(count - len(got))):
        got += piece
    return got


class StaleCookie(HandshakeError):
    """An EarlyHello to a Challenge that was not given."""

    counter = "hs_stale_cookie"


class EarlyDrone(DroneHandshake):
    """A drone that may begin with an EarlyHello."""

    def early(self, challenge: bytes) -> bytes:
        """An EarlyHello to this Challenge frame; ServerHello is awaited then."""
        self.start()
        assert self.on_header(challenge[:4]) == 65
        hello = b"".join(self.on_body(challenge[4:]))
        frame = EARLY_HEADER + challenge[5:37] + hello[4:-32]
        self._hello_frame = frame + mac(self._psk_keys.hello, challenge, frame)
        return self._hello_frame


def early_drone(psk: DronePsk, trusted: Sequence[GcsPublicIdentity], primitives: Primitives) -> EarlyDrone:
    """One of the lab's usual suite, which keeps no counts."""
    return EarlyDrone(
        suite=get("cs-mlkem768-aesgcm-mldsa65"),
        psk=psk,
        trusted=trusted,
        min_level=1,
        epoch=0,
        primitives=primitives,
        rng=os.urandom,
        tracer=Tracer(),
        counters=defaultdict(int),
        rx_index=77,
    )


class EarlyGcs(GcsHandshake):
    """A GCS that takes an EarlyHello to the Challenge with the nonce `given`."""

    def __init__(self, *, given: bytes, **more: Any) -> None:
        super().__init__(**more)
        self._given = given

    def on_header(self, header: bytes) -> int:
        if self._awaited == wire.HELLO and header == EARLY_HEADER:
            self._announced = (8, 133)
            return 133
        return super().on_header(header)

    def _handle(self, frame_type: int, body: bytes) -> list[bytes]:
        if frame_type != 8:
            return super()._handle(frame_type, body)
        nonce = body[:32]
        if nonce != self._given:
            raise StaleCookie("an EarlyHello answers no Challenge that was given")
        self._challenge_frame = wire.Challenge(wire.VERSION, nonce, self._identity.public.key_id).encode()
        self._identify(nonce)
        frame_header = wire.frame_header

        def header(kind: int, length: int) -> bytes:
            """What goes before the Hello's body: the EarlyHello's frame stands for the Hello's."""
            return EARLY_HEADER + nonce if kind == wire.HELLO else frame_header(kind, length)

        with patch.object(wire, "frame_header", header):
            return self._on_hello(body[32:])


def held_to_what_was_given(
    dial: Callable[[str], socket.socket],
    places: int,
    drone: Callable[[], EarlyDrone],
    counted: Callable[[str], int],
) -> bytes:
    """A station takes an EarlyHello once, from the source that its Challenge was given to, and refuses every
    other one by name. `dial` connects from an address of loopback, `places` strangers push out who came
    before, `counted` is a counter of the station. Returns the Challenge of the handshake that completed."""

    def sent_away() -> bytes:
        """The Challenge of a connection whose place was needed."""
        first = dial("127.0.0.1")
        challenge = exactly(first, CHALLENGE_BYTES)
        for number in range(places):  # one of each source: the oldest of all gives way
            stranger = dial(f"127.0.3.{number + 1}")
            assert len(exactly(stranger, CHALLENGE_BYTES)) == CHALLENGE_BYTES
        assert exactly(first, len(RETRY) + 1) == RETRY, "and nothing after it"
        return challenge

    def refused(frame: bytes, source: str = "127.0.0.1") -> bool:
        with dial(source) as sock:
            sock.sendall(frame)
            return exactly(sock, CHALLENGE_BYTES + 5)[CHALLENGE_BYTES:] == wire.ALERT_FRAME

    challenge, own = sent_away(), drone()
    early = own.early(challenge)
    assert len(early) == 4 + 133
    again = dial("127.0.0.1")
    again.sendall(early)
    passed_over = exactly(again, CHALLENGE_BYTES)
    assert passed_over[:1] == challenge[:1] and passed_over[5:37] != challenge[5:37]
    while not own.done:
        length = own.on_header(exactly(again, 4))
        again.sendall(b"".join(own.on_body(exactly(again, length))))
    assert wait_until(lambda: counted("hs_completed") == 1) and counted("hs_early") == 1

    assert refused(early), "a copy"
    assert wait_until(lambda: counted("hs_stale_cookie") == 1)
    fresh = drone().early(sent_away())
    assert refused(fresh, "127.0.0.9"), "from another address"
    altered = bytearray(fresh)
    altered[4] ^= 1
    assert refused(bytes(altered)), "to a Challenge that nobody was given"
    assert wait_until(lambda: counted("hs_stale_cookie") == 3)
    altered = bytearray(fresh)
    altered[-1] ^= 1
    assert refused(bytes(altered)), "under another PSK"
    assert wait_until(lambda: counted("hs_bad_mac") == 1)
    assert not refused(fresh), "none of these has spent it"
    assert wait_until(lambda: counted("hs_early") == 2)
    return challenge
