"""A drone, a GCS and a network under one seed, with the rules that must hold whatever the network does."""

from __future__ import annotations

import random
from collections.abc import Collection

from pqspec.handshake import PskStore
from pqspec.path import Address
from pqspec.simulation.clock import VirtualClock
from pqspec.simulation.ends import Drone, Gcs
from pqspec.simulation.network import RETRANSMIT_NS, Network, Stream
from pqspec.simulation.node import Surroundings
from pqspec.simulation.primitives import InvariantBroken, SeededRng, SimulatedPrimitives
from pqtunnel import suites
from pqtunnel.handshake.identity import DronePsk, GcsIdentity, GcsPublicIdentity

DRONE: Address = ("198.18.2.20", 46012)
GCS: Address = ("198.18.2.30", 46011)
SUITE = "cs-mlkem768-aesgcm-mldsa65"
LIVE_EPOCHS = 3
CONNECT_TRIES = 15


class World:
    """One simulation. Nothing in it reads a clock, the environment or the system's randomness.

    Rules checked after every step; breaking one raises InvariantBroken: no plaintext delivered twice, none
    that was not sent in that direction, at most three epochs live at an end, and (in the AEAD) no nonce used
    twice under one key.
    """

    def __init__(self, seed: int, suite_id: str = SUITE, accepted: Collection[str] = ()) -> None:
        suite, accepted = suites.get(suite_id), {suite_id, *accepted}
        self.clock = VirtualClock()
        self.network = Network(self.clock, random.Random(f"network {seed}"))
        self.streams: list[Stream] = []
        """Every connection, in order of dialling; `stream.lose` may be set to swallow frames."""
        self.sent: dict[str, dict[bytes, int]] = {"drone": {}, "gcs": {}}
        """By sender: plaintext → when it was sealed, ns."""
        self.delivered: dict[str, dict[bytes, int]] = {"drone": {}, "gcs": {}}
        """By receiver: plaintext → when it left the tunnel, ns."""
        self.refused = {"drone": 0, "gcs": 0}
        """Plaintexts that an end could not seal: no epoch yet, down or paused."""
        self._count = 0
        seed_bytes = seed.to_bytes(16, "big")
        primitives = SimulatedPrimitives(SeededRng(b"primitives" + seed_bytes))
        identity = _identity(primitives, {suites.get(one).sig.token for one in accepted})
        rng = SeededRng(b"identity" + seed_bytes)
        psk = DronePsk(rng(8), rng(32))

        def surroundings(name: bytes, address: Address, peer: Address) -> Surroundings:
            own = SeededRng(name + seed_bytes)
            return Surroundings(self.clock, self.network, primitives, own, address, peer, self._deliver)

        self.gcs = Gcs("gcs", surroundings(b"gcs", GCS, DRONE), suite, identity, PskStore([psk]), accepted)
        self.drone = Drone(
            "drone", surroundings(b"drone", DRONE, GCS), suite, psk, identity, self._connect, accepted
        )

    def _connect(self) -> Stream:
        stream = Stream(self.clock, self.network, self.network.public(DRONE)[0])
        self.streams.append(stream)
        self._knock(stream, CONNECT_TRIES)
        return stream

    def _knock(self, stream: Stream, tries: int) -> None:
        delay_ns = self.network.stream_delay_ns("gcs")
        if delay_ns is not None:
            self.clock.after(delay_ns, lambda: self.gcs.accept(stream))
        elif tries > 1:  # in the end no answer ever comes, and the handshake runs into its deadline
            self.clock.after(RETRANSMIT_NS, lambda: self._knock(stream, tries - 1))

    # ------------------------------------------------------------------ traffic

    def send(self, sender: str, payload: bytes | None = None) -> bytes | None:
        """A plaintext into the tunnel at `sender` (None: numbered by itself); None when it was refused."""
        if payload is None:
            self._count += 1
            payload = b"%s %d" % (sender.encode(), self._count)
        if payload in self.sent[sender]:
            raise ValueError("plaintexts of one direction must differ, or no rule could be checked")
        node = self.drone if sender == "drone" else self.gcs
        if not node.seal(payload):
            self.refused[sender] += 1
            return None
        self.sent[sender][payload] = self.clock.now_ns
        return payload

    def traffic(self, hz: float, seconds: float, senders: Collection[str] = ("drone", "gcs")) -> None:
        """Plan uniform traffic from now on."""

        def one() -> None:
            for sender in senders:
                self.send(sender)

        for number in range(int(hz * seconds)):
            self.clock.after(int(number / hz * 1e9), one)

    def lost(self, sender: str) -> list[bytes]:
        """What `sender` sealed and the other end has not delivered."""
        receiver = "gcs" if sender == "drone" else "drone"
        return [payload for payload in self.sent[sender] if payload not in self.delivered[receiver]]

    # ------------------------------------------------------------------ time and rules

    def run(self, seconds: float) -> None:
        """Let this much virtual time pass. Raises InvariantBroken."""
        self.clock.run_until(self.clock.now_ns + int(seconds * 1e9), self.check)

    def check(self) -> None:
        """The rules that concern state; those about plaintexts and nonces are checked as they happen."""
        for node in (self.drone, self.gcs):
            if node.session.live_epochs > LIVE_EPOCHS:
                raise InvariantBroken(f"{node.session.live_epochs} epochs live at the {node.role}")

    def _deliver(self, receiver: str, payload: bytes) -> None:
        sender = "gcs" if receiver == "drone" else "drone"
        if payload not in self.sent[sender]:
            raise InvariantBroken(f"{payload!r} came out at the {receiver} and nobody had sent it")
        if payload in self.delivered[receiver]:
            raise InvariantBroken(f"{payload!r} came out at the {receiver} twice")
        self.delivered[receiver][payload] = self.clock.now_ns


def _identity(primitives: SimulatedPrimitives, tokens: Collection[str]) -> GcsIdentity:
    pairs = {token: primitives.sig(token).generate() for token in sorted(tokens)}
    public = GcsPublicIdentity({token: pair[0] for token, pair in pairs.items()})
    return GcsIdentity(public, {token: pair[1] for token, pair in pairs.items()})
