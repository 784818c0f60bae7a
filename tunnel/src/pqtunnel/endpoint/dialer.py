"""Drone side of the handshake: dial, converse, install the session, say hello on it at once."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pqtunnel.config import Address
from pqtunnel.endpoint.counters import add_to
from pqtunnel.endpoint.stream import FrameStream, converse
from pqtunnel.errors import HandshakeError
from pqtunnel.handshake.drone import DroneHandshake
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsPublicIdentity
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.keyschedule import PskKeys
from pqtunnel.primitives import Primitives
from pqtunnel.scheduling import PrimitiveSampling, thread_meter
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer
from pqtunnel.wire import ALERT_FRAME

CONNECT_TIMEOUT_S: Final = 3.0


class PeerUnreachableError(HandshakeError):
    """No TCP connection to the gcs."""

    code = "peer_unreachable"
    hint = "is the gcs up and on the same network? `make lab-status`"
    counter = "hs_connection_lost"
    send_alert = False


@dataclass(frozen=True)
class DialResult:
    """A completed handshake: its keys and its span rows."""

    established: Established
    handshake_id: str
    spans: list[dict[str, object]]
    rtt_ns: int
    """Round trip of the TCP connect."""


@dataclass(frozen=True)
class Dialer:
    """Everything that does not change between two handshakes of one cell."""

    target: Address
    source: str
    """Local address to dial from: the gcs expects sealed packets from there."""
    suite: Suite
    psk: DronePsk
    psk_keys: PskKeys
    trusted: Sequence[GcsPublicIdentity]
    min_level: int
    primitives: Primitives
    signing_keys: Mapping[str, bytes] | None = None
    """The drone's own, where it is to sign."""
    sampling: PrimitiveSampling = field(default_factory=PrimitiveSampling)
    """The cell's: which handshakes have their primitives metered."""

    def dial(
        self,
        index: int,
        epoch: int,
        rx_index: int,
        counters: dict[str, int],
        rekey: RekeyFrom | None = None,
        *,
        label: str = "cold",
    ) -> DialResult:
        """One handshake, from connect to the verified FinishedGcs; `rekey` names the session it
        replaces; `label` is the mode of any other one's spans: cold, pooled (the gcs holds keys
        ready) or redial (after silence, in the middle of a session).

        `counters` receives what this handshake counted, failed or not. Raises HandshakeError of every kind.
        """
        with thread_meter() as meter:
            tracer = Tracer(
                clock=time.perf_counter_ns,
                host="drone",
                index=index,
                mode="rekey" if rekey is not None else label,
                suite_id=self.suite.id,
                meter=meter,
                meter_primitives=self.sampling.due(index),
            )
            return self._dial(tracer, epoch, rx_index, counters, rekey)

    def _dial(
        self, tracer: Tracer, epoch: int, rx_index: int, counters: dict[str, int], rekey: RekeyFrom | None
    ) -> DialResult:
        tracer.mark("connect", "io")
        started_ns = time.monotonic_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            try:
                sock.settimeout(CONNECT_TIMEOUT_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.bind((self.source, 0))
                sock.connect(self.target)
                rtt_ns = time.monotonic_ns() - started_ns
            except OSError as error:
                add_to(counters, "hs_started")
                add_to(counters, PeerUnreachableError.counter)
                reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
                raise PeerUnreachableError(
                    f"cannot connect to the gcs at {self.target[0]}:{self.target[1]}: {reason}"
                ) from error
            machine = DroneHandshake(
                suite=self.suite,
                psk=self.psk,
                psk_keys=self.psk_keys,
                trusted=self.trusted,
                min_level=self.min_level,
                epoch=epoch,
                primitives=self.primitives,
                rng=os.urandom,
                tracer=tracer,
                counters=counters,
                rx_index=rx_index,
                rekey=rekey,
                signing_keys=self.signing_keys,
            )
            try:
                converse(FrameStream(sock, started_ns), machine, tracer)
            except HandshakeError as error:
                if error.counter == "hs_connection_lost":
                    add_to(counters, error.counter)
                refuse(sock, error)
                raise
            tracer.finish()
        self.sampling.made(tracer.wall_ns)
        established = machine.established
        assert established is not None  # `done` without an error means established
        return DialResult(established, machine.handshake_id, tracer.rows(), rtt_ns)


def refuse(sock: socket.socket, error: HandshakeError) -> None:
    """Say no, if the connection still takes it: the error's own authenticated answer or the generic alert,
    or nothing where the error says so. The reason stays in the local log."""
    if not error.send_alert:
        return
    try:
        sock.settimeout(0.2)
        sock.sendall(error.answer or ALERT_FRAME)
    except OSError:
        return  # the peer is gone: it needs no alert
