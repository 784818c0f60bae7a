"""A network in virtual time: datagrams that are delayed, lost, doubled and overtaken; streams that only wait.

In scope: moving bytes between addresses under a seed, translation of addresses, a look at what passes. Not in
scope: what the bytes mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from pqspec.path import Address
from pqspec.simulation.clock import MS, S, VirtualClock

Receive = Callable[[bytes, Address], None]
Tap = Callable[[Address, Address, bytes], None]
RETRANSMIT_NS = 200 * MS
STREAM_GIVE_UP_NS = 20 * S


@dataclass(frozen=True)
class Link:
    """One direction. Times in ns, probabilities 0 to 1."""

    delay_ns: int = 1 * MS
    jitter_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_ns: int = 20 * MS
    """How much later a datagram comes that is chosen to be overtaken."""
    is_cut: bool = False


class Network:
    """Two directions by the receiver's role, any number of addresses."""

    def __init__(self, clock: VirtualClock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._receivers: dict[Address, tuple[str, Receive]] = {}
        self._public: dict[Address, Address] = {}
        self.links: dict[str, Link] = {"drone": Link(), "gcs": Link()}
        self.taps: list[Tap] = []
        """Called with (source, destination, datagram) of all that enters the network."""

    def attach(self, role: str, address: Address, receive: Receive) -> None:
        """`receive(datagram, source)` gets what is sent to `address` over the link towards `role`."""
        self._receivers[address] = (role, receive)

    def translate(self, inside: Address, public: Address) -> None:
        """From now on `inside` is seen as `public`; what is sent to an earlier translation is lost."""
        self._public[inside] = public

    def public(self, inside: Address) -> Address:
        """How others see `inside`."""
        return self._public.get(inside, inside)

    def send(self, source: Address, destination: Address, datagram: bytes) -> None:
        """Put a datagram on its way, from the sender's own address."""
        self.inject(self.public(source), destination, datagram)

    def inject(self, source: Address, destination: Address, datagram: bytes) -> None:
        """The same from any address: what a stranger can do."""
        for tap in list(self.taps):
            tap(source, destination, datagram)
        inside = next((own for own, seen in self._public.items() if seen == destination), destination)
        if self._public.get(inside, inside) != destination:
            return  # the translation it aims at is gone
        found = self._receivers.get(inside)
        if found is None:
            return
        role, receive = found
        link, rng = self.links[role], self._rng
        for _ in range(2 if rng.random() < link.duplicate else 1):
            if link.is_cut or rng.random() < link.loss:
                continue
            late_ns = link.reorder_ns if rng.random() < link.reorder else 0
            delay_ns = link.delay_ns + late_ns + int(rng.random() * link.jitter_ns)
            self._clock.after(delay_ns, lambda: receive(datagram, source))

    def stream_delay_ns(self, role: str) -> int | None:
        """What a reliable stream towards `role` makes of the link now: losses become waiting; None while it
        is cut."""
        link = self.links[role]
        if link.is_cut:
            return None
        delay_ns = link.delay_ns + int(self._rng.random() * link.jitter_ns)
        while self._rng.random() < link.loss:
            delay_ns += RETRANSMIT_NS + 2 * link.delay_ns
        return delay_ns


class Stream:
    """One TCP connection: whole frames, in order. `ends` are the two receivers by role."""

    def __init__(self, clock: VirtualClock, network: Network, source: str) -> None:
        self._clock = clock
        self._network = network
        self.source = source
        """Host part of the dialler's address as the acceptor sees it."""
        self.receivers: dict[str, Callable[[bytes], None]] = {}
        """By role: takes a frame, or b"" when the other end has closed."""
        self.lose: Callable[[str, bytes], bool] = lambda sender, frame: False
        self._closed: set[str] = set()
        self._free_ns: dict[str, int] = {"drone": 0, "gcs": 0}

    def send(self, sender: str, frame: bytes) -> None:
        """A frame towards the other end; b"" closes this one."""
        if sender in self._closed:
            return
        if not frame:
            self._closed.add(sender)
        elif self.lose(sender, frame):
            return
        self._carry("gcs" if sender == "drone" else "drone", frame, self._clock.now_ns)

    def _carry(self, receiver: str, frame: bytes, since_ns: int) -> None:
        now_ns = self._clock.now_ns
        delay_ns = self._network.stream_delay_ns(receiver)
        if delay_ns is None:
            if now_ns - since_ns < STREAM_GIVE_UP_NS:
                self._clock.after(RETRANSMIT_NS, lambda: self._carry(receiver, frame, since_ns))
            return
        at_ns = max(now_ns + delay_ns, self._free_ns[receiver])
        self._free_ns[receiver] = at_ns
        self._clock.after(at_ns - now_ns, lambda: self._deliver(receiver, frame))

    def _deliver(self, receiver: str, frame: bytes) -> None:
        take = self.receivers.get(receiver)
        if take is not None and receiver not in self._closed:  # None: never accepted
            take(frame)
