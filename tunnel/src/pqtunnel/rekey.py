"""When to rekey, sans-IO: back-off after a failure at the drone, repeated requests at the GCS.

In scope: timers and the meaning of a rekey-request. Not in scope: the handshake (`handshake`), the switch
(`session`). Times are monotonic nanoseconds given by the caller.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from pqtunnel import packet
from pqtunnel.suites import Suite, by_wire

BACKOFF_NS: Final = 500_000_000
BACKOFF_LIMIT_NS: Final = 8_000_000_000
JITTER: Final = 0.25
REQUEST_EVERY_NS: Final = 1_000_000_000
REASONS: Final = {packet.REQUEST_DUE: "due", packet.REQUEST_ASKED: "asked"}


class Backoff:
    """Pause before the next try: 0.5 s · 2^k, at most 8 s, ± 25 %, so that ends that failed together do not
    try together."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0

    def pause_ns(self) -> int:
        """Another try failed; how long to wait before the next."""
        base_ns = min(BACKOFF_LIMIT_NS, BACKOFF_NS << min(self._failures, 30))
        self._failures += 1
        return int(base_ns * self._rng.uniform(1 - JITTER, 1 + JITTER))

    def reset(self) -> None:
        """A try succeeded."""
        self._failures = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A rekey-request as the drone reads it. `suite` None: the one in use."""

    reason: str
    suite: Suite | None


def parse_request(payload: bytes) -> Request | None:
    """None for a payload that asks for nothing this end knows; an authentic peer may be newer than this."""
    if len(payload) != packet.REKEY_REQUEST_BYTES or payload[0] not in REASONS:
        return None
    code = payload[1:]
    suite = None if code == packet.SAME_SUITE else by_wire(code)
    if suite is None and code != packet.SAME_SUITE:
        return None
    return Request(REASONS[payload[0]], suite)


class Requester:
    """GCS: what it asks for, repeated each second until the epoch changes."""

    def __init__(self) -> None:
        self._payload: bytes | None = None
        self._epoch: int | None = None
        self._next_ns = 0

    def ask(self, reason: int, suite_code: bytes, epoch: int | None, now_ns: int) -> None:
        """Ask from now on for a successor of `epoch`. One that is due does not override one that is
        asked."""
        if self._payload is not None and self._epoch == epoch and reason == packet.REQUEST_DUE:
            return
        self._payload = packet.rekey_request(reason, suite_code)
        self._epoch = epoch
        self._next_ns = now_ns

    def due(self, epoch: int | None, now_ns: int) -> bytes | None:
        """The payload to send now, None when there is nothing to ask or it was asked less than 1 s ago."""
        if self._payload is not None and self._epoch != epoch:
            self._payload = None
        if self._payload is None or now_ns < self._next_ns:
            return None
        self._next_ns = now_ns + REQUEST_EVERY_NS
        return self._payload
