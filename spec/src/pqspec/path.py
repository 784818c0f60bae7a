"""Where a session's peer is, and how it may move: only by an answered challenge. Sans-IO.

An authentic packet with a new highest sequence that comes from another address makes that address the
candidate. The candidate, and nobody else, gets a sealed challenge; its answer, authentic and from the same
address, makes it the peer. Whoever copies or replays packets from an address of his own therefore moves
nothing: a copy is no new sequence, and a relay that gets one through must still carry the answer.

The same challenge is repeated while it is valid, so that neither a lost one nor a round trip longer than the
pause between two of them prevents the move. Times are monotonic nanoseconds given by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

Address = tuple[str, int]

TOKEN_BYTES: Final = 8
CHALLENGE_EVERY_NS: Final = 100_000_000
CHALLENGE_VALID_NS: Final = 3_000_000_000


class Challenge(NamedTuple):
    """A path-challenge to send, sealed, to `to` and nowhere else."""

    to: Address
    token: bytes


class PathState:
    """Peer address of one session. `rng` gives the tokens."""

    def __init__(self, peer: Address | None, rng: Callable[[int], bytes]) -> None:
        self._peer = peer
        self._rng = rng
        self._outstanding: Challenge | None = None
        self._made_ns = 0
        self._last_ns: int | None = None

    @property
    def peer(self) -> Address | None:
        """Where everything is sent."""
        return self._peer

    def set_peer(self, address: Address | None) -> None:
        """The peer as configured or as a handshake showed it; an outstanding challenge is void."""
        self._peer = address
        self._outstanding = None

    def on_authentic(self, source: Address, is_newest: bool, now_ns: int) -> Challenge | None:
        """An authentic packet came from `source`; the challenge to send now, if one is due."""
        if source == self._peer or not is_newest:
            return None
        if self._last_ns is not None and now_ns - self._last_ns < CHALLENGE_EVERY_NS:
            return None
        outstanding = self._outstanding
        if outstanding is None or outstanding.to != source or now_ns - self._made_ns > CHALLENGE_VALID_NS:
            outstanding = self._outstanding = Challenge(source, self._rng(TOKEN_BYTES))
            self._made_ns = now_ns
        self._last_ns = now_ns
        return outstanding

    def on_response(self, source: Address, token: bytes, now_ns: int) -> bool:
        """An authentic path-response came; True when it moved the peer to `source`."""
        outstanding = self._outstanding
        if (
            outstanding is None
            or source != outstanding.to
            or token != outstanding.token
            or now_ns - self._made_ns > CHALLENGE_VALID_NS
        ):
            return False
        self._peer = source
        self._outstanding = None
        return True
