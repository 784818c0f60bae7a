"""GCS side of the handshake: pre-spawned workers that accept, check the limits and converse.

Several threads block in accept() on one socket, so that a connection costs no thread creation and no
hand-over. There is one worker more than handshakes may be half open, so that a newcomer always finds one: it
takes the place of the oldest connection that has sent no right Hello (`handshake.limits`). That one is told
to come again with its Hello first, which a stranger cannot: it finds its place at once, whoever knocks.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pqbase.net import claim
from pqtunnel.endpoint.counters import add_to
from pqtunnel.endpoint.handshakes import Answer, GcsHandshakes
from pqtunnel.endpoint.sockets import PortTakenError
from pqtunnel.endpoint.work import CellWork
from pqtunnel.errors import Evicted, HandshakeError, TunnelError
from pqtunnel.handshake.established import Epoch
from pqtunnel.handshake.limits import HandshakeLimits, Slot
from pqtunnel.handshake.rekey import RekeyBasis
from pqtunnel.primitives.pool import Wipeable
from pqtunnel.scheduling import Meter, Reading, thread_meter
from pqtunnel.trace import Tracer

_BACKLOG: Final = 64
_LINGER_RESET: Final = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)
"""struct linger: on, for 0 s."""


@dataclass(frozen=True)
class AcceptPolicy:
    """What the gcs accepts during one cell, and the cell that everything of such a handshake belongs to."""

    work: CellWork
    accepted: Collection[str]
    min_level: int
    suite_id: str
    rekey_basis: Callable[[bytes], RekeyBasis | None]
    drone_keys: Callable[[bytes], Mapping[str, bytes]] | None = None
    """Registered keys of drones, where they are to sign."""
    key_source: Callable[[str], Wipeable | None] | None = None


@dataclass(frozen=True)
class Arrival:
    """Where a completed handshake came from, whether it replaces a session, its round trip, and its place
    among the accepted connections."""

    source: str
    purpose: str
    rtt_ns: int
    number: int


@dataclass(frozen=True)
class AcceptHooks:
    """What the acceptor reports to its endpoint; called from worker threads."""

    policy: Callable[[], AcceptPolicy | None]
    """None: no cell is prepared; every connection is closed at once."""
    new_index: Callable[[], int]
    install: Callable[[CellWork, Epoch, Arrival], None]
    """Raises CellEnded unless this cell is held and took the keys, PolicyRefused where a newer handshake of
    this drone has completed."""
    failed: Callable[[CellWork, HandshakeError, str], None]


class Acceptor:
    """The TCP side of a gcs. Workers run from `open` to `close`."""

    def __init__(
        self,
        address: tuple[str, int],
        handshakes: GcsHandshakes,
        limits: HandshakeLimits,
        workers: int,
        hooks: AcceptHooks,
    ) -> None:
        self._handshakes = handshakes
        self._limits = limits
        self._hooks = hooks
        self._workers = workers
        self._closing = False
        self._lock = threading.Lock()
        self._sockets: dict[Slot, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim(self._listener)
            self._listener.bind(address)
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise PortTakenError(
                f"TCP {address[0]}:{address[1]} (PQ_HANDSHAKE_PORT) cannot be bound: "
                f"{error.strerror or error}"
            ) from error

    @property
    def address(self) -> tuple[str, int]:
        """Where the gcs listens."""
        host, port = self._listener.getsockname()
        return str(host), int(port)

    def open(self) -> None:
        """Start the workers."""
        for number in range(self._workers):
            thread = threading.Thread(target=self._work, name=f"gcs-handshake-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop listening, and end the handshakes that are under way: nobody waits for their peers."""
        self._closing = True
        with contextlib.suppress(OSError):  # not connected: other platforms wake on close alone
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes every accept() on Linux
        self._listener.close()
        with self._lock:
            for slot in self._sockets:
                self._end(slot)
        for thread in self._threads:
            thread.join(timeout=1.0)

    # ------------------------------------------------------------------ one worker

    def _work(self) -> None:
        with thread_meter() as meter:
            self._accept_until_closed(meter)

    def _accept_until_closed(self, meter: Meter) -> None:
        while True:
            before = meter.begin()
            try:
                sock, source = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                time.sleep(0.05)  # out of descriptors, or a connection that died in the queue: not a spin
                continue
            accepted_ns = time.monotonic_ns()
            self._serve(sock, str(source[0]), accepted_ns, meter, before)

    def _serve(
        self, sock: socket.socket, source: str, accepted_ns: int, meter: Meter, before: Reading | None
    ) -> None:
        policy = self._hooks.policy()
        if policy is None:
            sock.close()
            return
        work = policy.work
        tracer = Tracer(
            clock=time.perf_counter_ns,
            host="gcs",
            index=work.handshakes,
            mode="cold",
            suite_id=policy.suite_id,
            meter=meter,
            meter_primitives=work.sampling.due(work.handshakes),
            before=before,
        )
        tracer.mark("accept", "io")
        counters: dict[str, int] = {}
        number = next(self._numbers)
        try:
            with self._lock:
                slot, victim = self._limits.admit(source, accepted_ns)
                self._sockets[slot] = sock
                if victim is not None:
                    self._end(victim)
        except HandshakeError as error:
            add_to(counters, error.counter)
            # Refused before a byte was read: a reset keeps no state here, not even TIME_WAIT.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            sock.close()
            work.counters.add_handshake(counters)
            self._hooks.failed(work, error, source)
            return
        try:
            self._converse(sock, slot, number, accepted_ns, policy, tracer, counters)
        finally:
            with self._lock:
                self._limits.release(slot)
                del self._sockets[slot]
            sock.close()
            work.counters.add_handshake(counters)

    def _end(self, victim: Slot) -> None:
        sock, word = self._sockets[victim], self._handshakes.last_word
        with contextlib.suppress(OSError):  # its peer went away in this very moment
            if word and not self._closing:
                sock.send(word)  # four bytes behind a Challenge: there is room for them
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            sock.shutdown(socket.SHUT_RDWR)  # wakes the worker that waits for its Hello
            if sys.platform == "win32":
                sock.close()  # who waits there does not hear of a shutdown

    def _admit_key(self, key_id: bytes, slot: Slot) -> None:
        with self._lock:
            self._limits.admit_key(key_id, slot, time.monotonic_ns())

    def _converse(
        self,
        sock: socket.socket,
        slot: Slot,
        number: int,
        accepted_ns: int,
        policy: AcceptPolicy,
        tracer: Tracer,
        counters: dict[str, int],
    ) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def install(established: Epoch, rtt_ns: int) -> None:
                tracer.suite_id = established.suite_id
                tracer.mode = "rekey" if tracer.purpose == "rekey" else tracer.mode
                arrival = Arrival(slot.source, tracer.purpose, rtt_ns, number)
                self._hooks.install(policy.work, established, arrival)

            answer = Answer(
                source=slot.source,
                accepted=policy.accepted,
                min_level=policy.min_level,
                rx_index=self._hooks.new_index(),
                admit_key=partial(self._admit_key, slot=slot),
                rekey_basis=policy.rekey_basis,
                install=install,
                drone_keys=policy.drone_keys,
                key_source=policy.key_source,
            )
            self._handshakes.answer(sock, accepted_ns, answer, tracer, counters)
            tracer.finish()
            if tracer.keygen == "pooled" and tracer.mode == "cold":
                tracer.mode = "pooled"
        except HandshakeError as error:
            if slot.evicted and error.counter == "hs_connection_lost":
                error = Evicted(f"{slot.source} had sent no right Hello when its place was needed")
                add_to(counters, error.counter)
            elif error.counter == "hs_connection_lost":
                add_to(counters, error.counter)
            self._hooks.failed(policy.work, error, slot.source)
            return
        except TunnelError as error:  # a primitive broke: refuse this handshake, keep serving
            add_to(counters, HandshakeError.counter)
            failure = HandshakeError(str(error), code=error.code, hint=error.hint)
            self._hooks.failed(policy.work, failure, slot.source)
            return
        with self._lock:
            policy.work.handshakes += 1
            policy.work.sampling.made(tracer.wall_ns)
        policy.work.journal.add_spans(tracer.rows())
