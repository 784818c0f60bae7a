"""A whole handshake between two state machines in one process: the crypto and the protocol, no network."""

from __future__ import annotations

import os
from collections.abc import Callable

from pqtunnel.errors import PrimitiveFailed
from pqtunnel.handshake import (
    DroneHandshake,
    DronePsk,
    GcsHandshake,
    GcsIdentity,
    GcsPublicIdentity,
    PskStore,
)
from pqtunnel.handshake.machine import HandshakeMachine
from pqtunnel.keyschedule import PSK_BYTES, PskKeys
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer
from pqtunnel.wire import DRONE_ID_BYTES, HEADER_BYTES


class InMemoryHandshake:
    """Long-term keys of both ends for one suite, made once; every `fresh` has new ephemeral keys."""

    def __init__(self, suite: Suite, primitives: Primitives) -> None:
        self._suite = suite
        self._primitives = primitives
        public, secret = primitives.sig(suite.sig.token).generate()
        self._identity = GcsIdentity(GcsPublicIdentity({suite.sig.token: public}), {suite.sig.token: secret})
        self._psk = DronePsk(os.urandom(DRONE_ID_BYTES), os.urandom(PSK_BYTES))
        self._psk_keys = PskKeys.derive(self._psk.psk)
        self._psks = PskStore([self._psk])

    def fresh(self) -> Callable[[], None]:
        """One handshake, ready to be run once. Raises PrimitiveFailed when the two ends do not agree."""
        counters: dict[str, int] = {}
        gcs = GcsHandshake(
            identity=self._identity,
            psks=self._psks,
            accepted=(self._suite.id,),
            min_level=self._suite.level,
            primitives=self._primitives,
            rng=os.urandom,
            tracer=Tracer(clock=_no_clock),
            counters=counters,
            rx_index=1,
        )
        drone = DroneHandshake(
            suite=self._suite,
            psk=self._psk,
            psk_keys=self._psk_keys,
            trusted=(self._identity.public,),
            min_level=self._suite.level,
            primitives=self._primitives,
            rng=os.urandom,
            tracer=Tracer(clock=_no_clock),
            counters=counters,
            rx_index=2,
            epoch=0,
        )

        def step() -> None:
            drone.start()
            waiting = gcs.start()
            receiver: HandshakeMachine = drone
            while waiting:
                frame = b"".join(waiting)
                receiver.on_header(frame[:HEADER_BYTES])
                waiting = receiver.on_body(frame[HEADER_BYTES:])
                receiver = gcs if receiver is drone else drone
            ends = gcs.established, drone.established
            if ends[0] is None or ends[1] is None or ends[0].session_id != ends[1].session_id:
                raise PrimitiveFailed(f"{self._suite.id}: the two ends did not agree on a session")

        return step


def _no_clock() -> int:
    return 0
