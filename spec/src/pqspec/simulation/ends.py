"""The two roles: a drone that dials, redials and rekeys, and a GCS that accepts and asks."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pqspec.handshake import DroneHandshake, GcsHandshake, PskStore
from pqspec.session import Received
from pqspec.simulation.conversation import Conversation
from pqspec.simulation.network import Stream
from pqspec.simulation.node import Node
from pqtunnel import packet
from pqtunnel.errors import HandshakeError, SessionUnknown
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk, GcsIdentity
from pqtunnel.rekey import Backoff, Requester, parse_request
from pqtunnel.session import new_index
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer

CONFIRM_TICKS = 10
"""As the real drone: for 1 s after a handshake a keepalive each 100 ms until the gcs has answered, and no
further rekey before that."""


@dataclass
class Gcs(Node):
    """The end that accepts."""

    identity: GcsIdentity
    psks: PskStore
    accepted: Collection[str]
    min_level: int = 1

    def fresh(self) -> None:
        """Also forgets what it was asking for."""
        super().fresh()
        self.requester = Requester()

    def accept(self, stream: Stream) -> None:
        """A connection came; a process that is down refuses it, a paused one lets it wait."""
        if not self.is_up:
            stream.send("gcs", b"")
            return
        self.when_awake(lambda: self._converse(stream))

    def _converse(self, stream: Stream) -> None:
        tracer = Tracer(clock=lambda: self.at.clock.now_ns, host="gcs")
        machine = GcsHandshake(
            identity=self.identity,
            psks=self.psks,
            accepted=self.accepted,
            min_level=self.min_level,
            primitives=self.at.primitives,
            rng=self.at.rng,
            tracer=tracer,
            counters=self.counters,
            rx_index=new_index(self.at.rng, self.session),
            rekey_basis=self.book.basis,
        )

        def completed(established: Established) -> None:
            peer = self.roaming.peer
            if tracer.purpose == "new" and (peer is None or peer[0] != stream.source):
                self.roaming.set_peer((stream.source, self.at.peer[1]))
            self.install(established)
            self.spans.append(tracer)

        def refused(error: HandshakeError) -> None:
            self.note(f"handshake refused: {error}")

        self.run(Conversation(self.at.clock, stream, "gcs", machine, completed, refused))

    def request(self, suite: Suite | None = None) -> None:
        """Ask the drone for a rekey, each second until the epoch changes."""
        code = packet.SAME_SUITE if suite is None else suite.wire_code
        self.requester.ask(packet.REQUEST_ASKED, code, self.session.epoch, self.at.clock.now_ns)

    def tick(self) -> None:
        """Ask for what is due."""
        now_ns, epoch = self.at.clock.now_ns, self.session.epoch
        if self.session.rekey_due(now_ns):
            self.requester.ask(packet.REQUEST_DUE, packet.SAME_SUITE, epoch, now_ns)
        payload = self.requester.due(epoch, now_ns)
        if payload is not None:
            self.send_control(packet.REKEY_REQUEST, payload)


@dataclass
class Drone(Node):
    """The end that dials. `connect` opens a stream to the gcs. The wish for a rekey outlives its failures."""

    psk: DronePsk
    identity: GcsIdentity
    connect: Callable[[], Stream]
    accepted: Collection[str]
    min_level: int = 1
    automatic: bool = True
    """Dial as soon as there is no session, and again after silence."""

    def fresh(self) -> None:
        """Also forgets which handshakes it was in."""
        super().fresh()
        self._talk: Conversation | None = None
        self._epochs = 0
        self._backoff = Backoff(random.Random(self.at.rng(8)))
        self._wanted: Suite | None = None
        self._try_at_ns = 0
        self._confirm_ticks = 0

    @property
    def is_busy(self) -> bool:
        """Is a handshake in flight, or its epoch not yet confirmed?"""
        return self._talk is not None or (self._confirm_ticks > 0 and not self.confirmed)

    def rekey(self, suite: Suite | None = None) -> None:
        """Rekey as soon as nothing is in flight; joins what is wanted already."""
        target = suite or self._wanted or self.suite
        if self._wanted is target:
            self.counters["rekey_coalesced"] += 1
            return
        self._wanted = target
        if not self.is_busy and self.book.newest is not None:
            self._dial(target, rekey=True)

    def dial(self) -> None:
        """A new session, unless a handshake is in flight."""
        if self._talk is None:
            self._dial(self.suite, rekey=False)

    def _dial(self, suite: Suite, *, rekey: bool) -> None:
        stream, trusted = self.connect(), [self.identity.public]
        tracer = Tracer(clock=lambda: self.at.clock.now_ns, host="drone", suite_id=suite.id)
        machine = DroneHandshake(
            suite=suite,
            psk=self.psk,
            trusted=trusted,
            min_level=self.min_level,
            epoch=self._epochs,
            primitives=self.at.primitives,
            rng=self.at.rng,
            tracer=tracer,
            counters=self.counters,
            rx_index=new_index(self.at.rng, self.session),
            rekey=self.book.rekey_from() if rekey else None,
        )

        def completed(established: Established) -> None:
            self._completed(established)
            self.spans.append(tracer)

        def failed(error: HandshakeError) -> None:
            self._failed(error, suite, rekey=rekey)

        self._talk = Conversation(self.at.clock, stream, "drone", machine, completed, failed)
        self.run(self._talk)

    def _completed(self, established: Established) -> None:
        self._talk = None
        self._epochs += 1
        self._backoff.reset()
        if self._wanted is established.suite:
            self._wanted = None
        self.confirmed = False
        self._confirm_ticks = CONFIRM_TICKS
        self.install(established)
        self.send_control(packet.KEEPALIVE)

    def _failed(self, error: HandshakeError, suite: Suite, *, rekey: bool) -> None:
        self._talk = None
        self.note(f"handshake failed: {error}")
        if rekey and isinstance(error, SessionUnknown):
            self._dial(suite, rekey=False)
            return
        self._try_at_ns = self.at.clock.now_ns + self._backoff.pause_ns()

    def asked(self, received: Received) -> None:
        """A rekey-request of the gcs: obeyed within this end's own policy."""
        request, newest = parse_request(received.payload), self.book.newest
        if request is None or newest is None or received.epoch < newest.epoch:
            return
        suite = request.suite or self.suite
        if suite.id in self.accepted and suite.level >= self.min_level:
            self.rekey(suite)

    def tick(self) -> None:
        """Confirm, dial and redial after silence, rekey what is due or failed before."""
        now_ns = self.at.clock.now_ns
        if self._confirm_ticks > 0 and not self.confirmed:
            self._confirm_ticks -= 1
            self.send_control(packet.KEEPALIVE)
        if self._talk is not None or now_ns < self._try_at_ns:
            return
        newest = self.book.newest
        if self.automatic and (newest is None or self.session.silent(now_ns)):
            self._dial(self.suite, rekey=False)
            return
        wants = self._wanted is not None or self.session.rekey_due(now_ns)
        if wants and newest is not None and not self.is_busy:
            self._dial(self._wanted or self.suite, rekey=True)
