"""A whole handshake between two state machines in one process: the crypto and the protocol, no network."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.endpoint.tunnel import native_tunnel
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.suites import Suite
from pqtunnel.wire import DRONE_ID_BYTES, PSK_BYTES


class InMemoryHandshake:
    """Long-term keys of both ends for one suite, made once; every run has new ephemeral keys. Native, as the
    tunnel is. Raises ProviderMissing where its wheel is not installed."""

    def __init__(self, suite: Suite, primitives: Primitives) -> None:
        native_tunnel()  # says what is missing

        import pq_core

        from pqtunnel.endpoint.native_handshakes import NativeDrone, NativeGcs

        public, secret = primitives.sig(suite.sig.token).generate()
        identity = GcsIdentity(GcsPublicIdentity({suite.sig.token: public}), {suite.sig.token: secret})
        psk = DronePsk(os.urandom(DRONE_ID_BYTES), os.urandom(PSK_BYTES))
        self.vehicle = NativeDrone(DroneKeys(psk, (identity.public,))).vehicle
        self.station = NativeGcs(GcsKeys(identity, (psk,))).station
        self._run = partial(pq_core.meet, self.vehicle, self.station, suite.wire_code)

    def fresh(self) -> Callable[[], None]:
        """One handshake, to be run once. Raises PrimitiveFailed when the two ends do not agree."""
        return self._run
