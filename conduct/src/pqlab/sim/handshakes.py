"""One handshake in virtual time: the product's own machines over a modelled TCP connection."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from pqbase.documents import Json
from pqlab.sim.clock import VirtualClock
from pqlab.sim.end import End, Role
from pqlab.sim.identity import Identities
from pqspec.handshake.drone import DroneHandshake
from pqspec.handshake.gcs import GcsHandshake
from pqtunnel.handshake.established import Established
from pqtunnel.primitives.interfaces import Primitives
from pqtunnel.session import new_index
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer
from pqtunnel.wire import HEADER_BYTES

#: invented one-way delay of the simulated network, its jitter (exponential), and time inside a send call
DELAY_NS, JITTER_NS, SEND_NS = 150_000, 20_000, 8_000


def delay_ns(rng: random.Random) -> int:
    """One way through the network."""
    return DELAY_NS + round(rng.expovariate(1.0 / JITTER_NS))


class Wire(Protocol):
    """What carries the messages: times in, times out (monotonic ns)."""

    def connect(self, at_ns: int) -> int:
        """When the drone's connection stands."""

    def carry(self, sender: Role, size_bytes: int, at_ns: int) -> int:
        """When the last byte of a message has arrived."""


class Calm:
    """The simulated lab's own network: it loses nothing, and a message of any size takes as long."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def connect(self, at_ns: int) -> int:
        return at_ns + 2 * delay_ns(self._rng)

    def carry(self, sender: Role, size_bytes: int, at_ns: int) -> int:
        return at_ns + delay_ns(self._rng)


@dataclass(frozen=True)
class Made:
    """A completed handshake: what each end installs, and when (monotonic ns)."""

    drone: Established
    gcs: Established
    drone_ready_ns: int
    gcs_ready_ns: int
    rows: dict[Role, list[Json]]
    counts: dict[Role, dict[str, int]]


def handshake(
    clock: VirtualClock,
    suite: Suite,
    *,
    index: int,
    epoch: int,
    rekey: bool,
    ends: dict[Role, End],
    identities: Identities,
    accepted: Collection[str],
    min_level: int,
    primitives: Primitives,
    rng: random.Random,
    wire: Wire | None = None,
) -> Made:
    """From connect to the verified FinishedGcs, on `clock`, which primitives must be spending on.

    wire: None for the simulated lab's own network.
    """
    wire = wire or Calm(rng)
    counts: dict[Role, dict[str, int]] = {"drone": {}, "gcs": {}}
    mode = "rekey" if rekey else "cold"
    tracers = {
        role: Tracer(clock=clock.look_ns, host=role, index=index, mode=mode, suite_id=suite.id)
        for role in ends
    }
    drone = DroneHandshake(
        suite=suite,
        psk=identities.psk,
        trusted=[identities.gcs.public],
        epoch=epoch,
        tracer=tracers["drone"],
        counters=counts["drone"],
        rx_index=new_index(rng.randbytes, ends["drone"].session),
        rekey=ends["drone"].book.rekey_from() if rekey else None,
        min_level=min_level,
        primitives=primitives,
        rng=rng.randbytes,
    )
    gcs = GcsHandshake(
        identity=identities.gcs,
        psks=identities.psks,
        accepted=accepted,
        tracer=tracers["gcs"],
        counters=counts["gcs"],
        rx_index=new_index(rng.randbytes, ends["gcs"].session),
        rekey_basis=ends["gcs"].book.basis,
        min_level=min_level,
        primitives=primitives,
        rng=rng.randbytes,
    )
    tracers["drone"].mark("connect", "io")
    drone.start()
    clock.advance_to(wire.connect(clock.mono_ns()))
    tracers["gcs"].mark("accept", "io")
    tracers["drone"].mark(drone.wait_step, "network_wait")
    message = gcs.start()
    speaker: DroneHandshake | GcsHandshake = gcs
    listener: DroneHandshake | GcsHandshake = drone
    gcs_ready_ns = 0
    while message:
        role: Role = "gcs" if speaker is gcs else "drone"
        tracer, data = tracers[role], b"".join(message)
        tracer.mark(speaker.send_step, "io")
        clock.advance(SEND_NS)
        if speaker.done:
            tracer.finish()
        else:
            tracer.mark(speaker.wait_step, "network_wait")
        clock.advance_to(wire.carry(role, len(data), clock.mono_ns()))
        message = _deliver(listener, data)
        if listener is gcs and gcs.established is not None:
            gcs_ready_ns = clock.mono_ns()
        speaker, listener = listener, speaker
    for tracer in tracers.values():
        tracer.finish()
    # the loop ends when the drone has nothing left to say: both machines are done
    assert drone.established is not None and gcs.established is not None
    rows = {role: tracers[role].rows() for role in ends}
    return Made(drone.established, gcs.established, clock.mono_ns(), gcs_ready_ns, rows, counts)


def _deliver(machine: DroneHandshake | GcsHandshake, data: bytes) -> list[bytes]:
    """Feed whole frames; what the machine answers to the last of them."""
    answer: list[bytes] = []
    while data:
        length = machine.on_header(data[:HEADER_BYTES])
        answer = machine.on_body(data[HEADER_BYTES : HEADER_BYTES + length])
        data = data[HEADER_BYTES + length :]
    return answer
