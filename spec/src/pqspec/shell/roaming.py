"""What an authentic packet means beside its plaintext: where the peer is, and what its control frames ask.

Not thread safe: the data plane calls under its lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final

from pqspec.path import PathState
from pqspec.session import Received
from pqtunnel import packet
from pqtunnel.config import Address
from pqtunnel.endpoint.plane import ControlFrame

WAITING_FRAMES: Final = 64
Answer = tuple[int, bytes, Address]
"""Packet type, payload, and where it goes."""


class Roaming:
    """Peer address, path challenges and waiting control frames of one endpoint."""

    def __init__(
        self, home: Address | None, rng: Callable[[int], bytes], note: Callable[[str], None]
    ) -> None:
        self._home = home
        self._path = PathState(home, rng)
        self._note = note
        self._frames: deque[ControlFrame] = deque(maxlen=WAITING_FRAMES)

    @property
    def peer(self) -> Address | None:
        """Where sealed datagrams go now."""
        return self._path.peer

    def set_peer(self, address: Address) -> None:
        """Where sealed datagrams go, in later cells too, until an answered challenge moves them."""
        self._home = address
        self._path.set_peer(address)

    def reset(self) -> None:
        """A new cell begins where the configuration or the last handshake saw the peer."""
        self._path.set_peer(self._home)
        self._frames.clear()

    def take(self) -> list[ControlFrame]:
        """Control frames since the last call, oldest first."""
        taken = list(self._frames)
        self._frames.clear()
        return taken

    def heard(
        self, received: Received, source: Address, now_ns: int, counters: MutableMapping[str, int]
    ) -> list[Answer]:
        """Take in an authentic packet from `source`; control packets to seal and send, and where to."""
        path, kind, payload = self._path, received.kind, received.payload
        answers: list[Answer] = []
        if kind == packet.DATA and source != path.peer:
            counters["path_new_source"] += 1
        if packet.CONTROL_BYTES.get(kind) == len(payload):
            if len(self._frames) == WAITING_FRAMES:
                counters["control_dropped"] += 1
            self._frames.append(ControlFrame(kind, payload, received.epoch, source, now_ns))
            if kind == packet.PATH_CHALLENGE:
                answers.append((packet.PATH_RESPONSE, payload, source))
            elif kind == packet.PATH_RESPONSE and path.on_response(source, payload, now_ns):
                counters["path_changed"] += 1
                self._note(f"the peer moved to {source[0]}:{source[1]}")
        challenge = path.on_authentic(source, received.newest, now_ns)
        if challenge is not None:
            answers.append((packet.PATH_CHALLENGE, challenge.token, challenge.to))
        return answers
