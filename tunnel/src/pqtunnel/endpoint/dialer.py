"""Drone side of the handshake: dial, converse, install the session, say hello on it at once."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field, replace
from typing import Final

from pqtunnel.config import Address
from pqtunnel.endpoint.counters import add_to
from pqtunnel.endpoint.handshakes import Dial, DroneHandshakes
from pqtunnel.errors import HandshakeError, RetryAsked
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.scheduling import PrimitiveSampling, thread_meter
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer

CONNECT_TIMEOUT_S: Final = 3.0
EARLY_TRIES: Final = 3
"""Connections with the Hello first, at most, after one that a GCS under load ended (docs/PROTOCOL.md, 4)."""


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
        early_tries: int = 0,
    ) -> DialResult:
        """One handshake, from connect to the verified FinishedGcs; `rekey` names the session it
        replaces; `label` is the mode of any other one's spans: cold, pooled (the gcs holds keys
        ready) or redial (after silence, in the middle of a session).

        Where a GCS under load asks for it, up to `early_tries` times on another connection, with the Hello
        first; spans and round trip are those of the last one. `counters` receives what all of these counted.
        Raises HandshakeError of every kind.
        """
        dial = Dial(self.suite, self.min_level, epoch, rx_index, rekey, self.signs)
        mode = "rekey" if rekey is not None else label
        for _ in range(early_tries):
            try:
                return self._dial(index, mode, dial, counters)
            except RetryAsked as error:
                dial = replace(dial, early=error.challenge)
        return self._dial(index, mode, dial, counters)

    def _dial(self, index: int, mode: str, dial: Dial, counters: dict[str, int]) -> DialResult:
        with thread_meter() as meter:
            tracer = Tracer(
                clock=time.perf_counter_ns,
                host="drone",
                index=index,
                mode=mode,
                suite_id=self.suite.id,
                meter=meter,
                meter_primitives=self.sampling.due(index),
            )
            return self._connect(tracer, dial, counters)

    def _connect(self, tracer: Tracer, dial: Dial, counters: dict[str, int]) -> DialResult:
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
                if dial.early is None:
                    add_to(counters, "hs_started")
                add_to(counters, PeerUnreachableError.counter)
                reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
                raise PeerUnreachableError(
                    f"cannot connect to the gcs at {self.target[0]}:{self.target[1]}: {reason}"
                ) from error
            try:
                established = self.handshakes.dial(sock, started_ns, dial, tracer, counters)
            except HandshakeError as error:
                if error.counter == "hs_connection_lost":
                    add_to(counters, error.counter)
                raise
            tracer.finish()
        self.sampling.made(tracer.wall_ns)
        return DialResult(established, established.handshake_id, tracer.rows(), rtt_ns)
