"""Drone side of the handshake: dial, converse, install the session, say hello on it at once."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from typing import Final

from pqtunnel.config import Address
from pqtunnel.endpoint.counters import add_to
from pqtunnel.endpoint.handshakes import Dial, DroneHandshakes
from pqtunnel.errors import HandshakeError
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.scheduling import PrimitiveSampling, thread_meter
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer

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

    established: Epoch
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
    min_level: int
    handshakes: DroneHandshakes
    signs: bool = False
    """The drone proves itself by a signature, too."""
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
            try:
                dial = Dial(self.suite, self.min_level, epoch, rx_index, rekey, self.signs)
                established = self.handshakes.dial(sock, started_ns, dial, tracer, counters)
            except HandshakeError as error:
                if error.counter == "hs_connection_lost":
                    add_to(counters, error.counter)
                raise
            tracer.finish()
        self.sampling.made(tracer.wall_ns)
        return DialResult(established, established.handshake_id, tracer.rows(), rtt_ns)
