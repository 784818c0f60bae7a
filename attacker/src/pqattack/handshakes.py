"""A flood of handshakes: connections to the ground's TCP port, each with a Hello that no drone has made.

The layout of Challenge and Hello is docs/PROTOCOL.md's; the MAC is random, so that the ground spends what it
spends on anybody who can write a Hello, and no more.
"""

from __future__ import annotations

import errno
import random
import selectors
import socket
import struct
import time
from typing import Final

from pqattack.bounds import HANDSHAKE_PORT
from pqattack.sender import InThread
from pqattack.settings import Episode

HELLO_TYPE: Final = 0x12
CHALLENGE_BYTES: Final = 4 + 1 + 32 + 32
HELLO_BODY_BYTES: Final = 1 + 1 + 3 + 1 + 8 + 32 + 4 + 3 + 16 + 32
#: connections open at once; the oldest is given up for the next
_OPEN: Final = 256
_AT_ONCE: Final = 16
_NAP_S: Final = 0.001
#: closed by a reset, so that no port stays in TIME_WAIT
_LINGER: Final = struct.pack("ii", 1, 0)


def hello(rng: random.Random) -> bytes:
    """A frame that has the shape of a new session's Hello; every secret in it is made up."""
    suite, drone_id, nonce = rng.randbytes(3), rng.randbytes(8), rng.randbytes(32)
    body = bytes((1, 1)) + suite + b"\0" + drone_id + nonce + bytes(4) + rng.randbytes(3) + bytes(16)
    body += rng.randbytes(32)
    return bytes((HELLO_TYPE,)) + len(body).to_bytes(3, "big") + body


class HandshakeFlood(InThread):
    """Opens connections at the episode's rate; counts the Hellos that were sent."""

    def __init__(self, episode: Episode, target: str, rng: random.Random, port: int = HANDSHAKE_PORT) -> None:
        # `failed` counts connections that ended before their Hello was sent
        super().__init__("handshakes", "a connection")
        self._episode, self._address, self._rng = episode, (target, port), rng
        self._selector = selectors.DefaultSelector()
        #: bytes heard so far; None once the Hello is sent
        self._open: dict[socket.socket, int | None] = {}

    def put_away(self) -> None:
        """Close every connection."""
        for sock in list(self._open):
            self._close(sock)
        self._selector.close()

    def run(self) -> None:
        """The loop; returns when the episode is over."""
        begin_s, opened = time.monotonic(), 0
        while not self._shared.stop.is_set():
            since_s = time.monotonic() - begin_s
            if since_s >= self._episode.for_s:
                return
            behind = int(self._episode.rate_pps * since_s) - opened
            if behind > _OPEN:
                self.bins.skipped += behind - _OPEN
                opened += behind - _OPEN
            for _ in range(min(behind, _AT_ONCE)):
                if not self.bins.admit(time.time_ns()):
                    break
                self._dial()
                opened += 1
            for key, _ in self._selector.select(_NAP_S):
                assert isinstance(key.fileobj, socket.socket)
                self._hear(key.fileobj)

    def _dial(self) -> None:
        if len(self._open) >= _OPEN:
            self._close(next(iter(self._open)))
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        if sock.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            sock.close()
            self.failed += 1
            return
        self._open[sock] = 0
        self._selector.register(sock, selectors.EVENT_READ)

    def _hear(self, sock: socket.socket) -> None:
        """Bytes of the Challenge; once it is whole, the Hello; what comes after it ends the connection."""
        heard = self._open[sock]
        try:
            chunk = sock.recv(4096)
            if chunk and heard is not None:
                self._open[sock] = heard + len(chunk)
                if heard + len(chunk) >= CHALLENGE_BYTES:
                    sock.send(hello(self._rng))
                    self.bins.add(time.time_ns())
                    self._open[sock] = None
                return
        except OSError:  # refused or reset: where no Hello was sent, it is counted as one that failed
            chunk = b""
        self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self.failed += self._open.pop(sock) is not None
        self._selector.unregister(sock)
        sock.close()
