"""One end of the tunnel in virtual time: session, path, epochs and timers, as an endpoint runs them.

Everything that decides is the real code: the handshake machines, `Session`, `PathState` (in `Roaming`),
`EpochBook`, `Backoff`, `Requester`. This file plays the shell around them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pqspec.path import Address
from pqspec.session import Received, Session
from pqspec.shell.roaming import Roaming
from pqspec.simulation.clock import MS, Action, VirtualClock
from pqspec.simulation.conversation import Conversation
from pqspec.simulation.network import Network
from pqspec.simulation.primitives import Rng, SimulatedPrimitives
from pqtunnel import packet
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.epochs import EpochBook
from pqtunnel.errors import SessionError
from pqtunnel.handshake.established import Established, Role
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer

TICK_NS = 100 * MS


@dataclass(frozen=True)
class Surroundings:
    """What a node is given."""

    clock: VirtualClock
    network: Network
    primitives: SimulatedPrimitives
    rng: Rng
    address: Address
    peer: Address
    deliver: Callable[[str, bytes], None]
    """(role, plaintext) as it leaves the tunnel at this end."""


@dataclass
class Node:
    """What both roles share; lost by `restart`, kept by `pause`."""

    role: Role
    at: Surroundings
    suite: Suite

    def __post_init__(self) -> None:
        self.counters: Counter[str] = Counter()
        """Handshake counters of all lives of this end."""
        self.log: list[tuple[int, str]] = []
        self.spans: list[Tracer] = []
        """Of every completed handshake, in virtual time."""
        self.is_up = True
        self.is_paused = False
        self._waiting: list[Action] = []
        self._life = 0
        self.fresh()
        self.at.network.attach(self.role, self.at.address, self._arrived)
        self._tick_later()

    def fresh(self) -> None:
        """State of a process that has just started."""
        self.data = CellCounters().data
        """Data-plane counters of this life."""
        self.session = Session(self.role, self.data, self.at.primitives)
        self._talks: list[Conversation] = []
        self.book = EpochBook()
        self.roaming = Roaming(self.at.peer, self.at.rng, self.note)
        self.confirmed = False

    def note(self, text: str) -> None:
        """What this end would write into its log."""
        self.log.append((self.at.clock.now_ns, text))

    # ------------------------------------------------------------------ faults

    def restart(self, down_ns: int) -> None:
        """The process dies and comes back after `down_ns` with nothing but its configuration."""
        self.is_up = False
        self._life += 1
        for talk in self._talks:
            talk.lose()
        self.fresh()
        self.at.clock.after(down_ns, self._up)

    def _up(self) -> None:
        self.is_up = True

    def pause(self, duration_ns: int) -> None:
        """SIGSTOP and SIGCONT: what arrives meanwhile waits in the sockets' buffers."""
        self.is_paused = True
        self.at.clock.after(duration_ns, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def when_awake(self, action: Action) -> None:
        """Now, or after the pause; never for a process that has died meanwhile."""
        life = self._life

        def alive() -> None:
            if life == self._life and self.is_up:
                action()

        if self.is_paused:
            self._waiting.append(alive)
        else:
            alive()

    def run(self, talk: Conversation) -> None:
        """Take part in a handshake as long as this process lives."""
        self._talks = [known for known in self._talks if not known.is_over] + [talk]
        talk.start()

    # ------------------------------------------------------------------ packets

    def seal(self, payload: bytes) -> bool:
        """Plaintext into the tunnel at this end; False when it was dropped here."""
        peer = self.roaming.peer
        if not self.is_up or self.is_paused or peer is None or not self.session.can_send:
            return False
        self.at.network.send(self.at.address, peer, self.session.seal_data(payload)[0])
        return True

    def send_control(self, kind: int, payload: bytes = b"") -> None:
        """One sealed control packet to the peer, if there is an epoch to send it on."""
        peer = self.roaming.peer
        if peer is not None and self.session.can_send:
            self.at.network.send(self.at.address, peer, self.session.seal_control(kind, payload))

    def _arrived(self, datagram: bytes, source: Address) -> None:
        self.when_awake(lambda: self._received(datagram, source))

    def _received(self, datagram: bytes, source: Address) -> None:
        now_ns = self.at.clock.now_ns
        received = self.session.receive(datagram, now_ns)
        if received.kind == 0:
            return
        if received.first:
            self.confirmed = True
            if self.role == "gcs":
                self.send_control(packet.EPOCH_ACK)
        for kind, payload, to in self.roaming.heard(received, source, now_ns, self.data):
            try:
                self.at.network.send(self.at.address, to, self.session.seal_control(kind, payload))
            except SessionError as error:
                self.note(str(error))
        if received.kind == packet.DATA:
            self.at.deliver(self.role, received.payload)
        elif received.kind == packet.REKEY_REQUEST:
            self.asked(received)

    def asked(self, received: Received) -> None:
        """A rekey-request came."""

    # ------------------------------------------------------------------ upkeep

    def _tick_later(self) -> None:
        self.at.clock.after(TICK_NS, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        if self.is_up and not self.is_paused:
            self.book.settle(self.session.sent_on)
            if self.session.keepalive_due(self.at.clock.now_ns):
                self.send_control(packet.KEEPALIVE)
            self.tick()

    def tick(self) -> None:
        """What the role does ten times a second."""

    def install(self, established: Established) -> None:
        """Take in the keys of a completed handshake."""
        self.session.install(established, self.at.clock.now_ns)
        self.book.add(established, self.session.sent_on)
        self.suite = established.suite
