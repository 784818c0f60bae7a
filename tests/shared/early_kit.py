"""The specification's ends know neither Retry nor EarlyHello; here they learn them (PROTOCOL.md, 4)."""

from __future__ import annotations

import socket
from typing import Any
from unittest.mock import patch

from pqspec.handshake import DroneHandshake, GcsHandshake
from pqspec.keyschedule import mac
from pqtunnel import wire
from pqtunnel.errors import HandshakeError

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
