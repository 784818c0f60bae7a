"""The executable specification over sockets: what the tests hold the native handshake against."""

from __future__ import annotations

import os
import socket

from pqspec.handshake.drone import DroneHandshake
from pqspec.handshake.gcs import GcsHandshake
from pqspec.handshake.psks import PskStore
from pqspec.handshake.secrets import clear
from pqspec.keyschedule import PskKeys
from pqspec.shell.stream import FrameStream, converse, refuse
from pqtunnel.endpoint.handshakes import Answer, Dial
from pqtunnel.endpoint.identity_files import DroneKeys, GcsKeys
from pqtunnel.errors import HandshakeError, TunnelError
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import GcsIdentity
from pqtunnel.primitives import Primitives
from pqtunnel.trace import Tracer


class SpecifiedDrone:
    """`DroneHandshakes` by `handshake.drone`."""

    def __init__(self, keys: DroneKeys, primitives: Primitives) -> None:
        self._keys = keys
        self._psk_keys = PskKeys.derive(clear(keys.psk.psk))
        self._signing = {token: clear(key) for token, key in keys.signing.items()}
        self._primitives = primitives

    def load(self) -> None:
        """Nothing: whoever prepares a cell has loaded its primitives."""

    def dial(
        self, sock: socket.socket, started_ns: int, dial: Dial, tracer: Tracer, counters: dict[str, int]
    ) -> Established:
        """As `DroneHandshakes.dial`."""
        machine = DroneHandshake(
            suite=dial.suite,
            psk=self._keys.psk,
            psk_keys=self._psk_keys,
            trusted=self._keys.trusted,
            min_level=dial.min_level,
            epoch=dial.epoch,
            primitives=self._primitives,
            rng=os.urandom,
            tracer=tracer,
            counters=counters,
            rx_index=dial.rx_index,
            rekey=dial.rekey,
            signing_keys=self._signing if dial.signs else None,
        )
        try:
            converse(FrameStream(sock, started_ns), machine, tracer)
        except HandshakeError as error:
            refuse(sock, error)
            raise
        established = machine.established
        assert established is not None  # `done` without an error means established
        return established


class SpecifiedGcs:
    """`GcsHandshakes` by `handshake.gcs`, which remembers no Challenge."""

    last_word = b""

    def __init__(self, keys: GcsKeys, primitives: Primitives) -> None:
        self._psks = PskStore(keys.psks)
        secrets = {token: clear(key) for token, key in keys.identity.secrets.items()}
        self._identity = GcsIdentity(keys.identity.public, secrets)
        self.pairs = primitives

    def load(self) -> None:
        """As `SpecifiedDrone.load`."""

    def answer(
        self, sock: socket.socket, started_ns: int, answer: Answer, tracer: Tracer, counters: dict[str, int]
    ) -> None:
        """As `GcsHandshakes.answer`."""
        machine = GcsHandshake(
            identity=self._identity,
            psks=self._psks,
            accepted=answer.accepted,
            min_level=answer.min_level,
            primitives=self.pairs,
            rng=os.urandom,
            tracer=tracer,
            counters=counters,
            rx_index=answer.rx_index,
            admit_key=answer.admit_key,
            rekey_basis=answer.rekey_basis,
            drone_keys=answer.drone_keys,
            key_source=answer.key_source,
        )
        installed = False

        def install() -> None:
            nonlocal installed
            if machine.established is not None and not installed:
                installed = True
                answer.install(machine.established, _rtt_ns(tracer))

        try:
            converse(FrameStream(sock, started_ns), machine, tracer, before_send=install)
        except HandshakeError as error:
            refuse(sock, error)
            raise
        except TunnelError as error:  # a primitive broke: the peer is told no more than that
            refuse(sock, HandshakeError(str(error)))
            raise


def _rtt_ns(tracer: Tracer) -> int:
    """Challenge out, Hello in: the drone spends one MAC in between."""
    return sum(end_ns - start_ns for step, _, start_ns, end_ns in tracer.spans() if step == "wait_hello")
