"""Forwarding on blocking sockets: plaintext datagrams are sealed one for one, sealed ones opened one for one.

Two resident threads, one a direction, each asleep in the kernel until a datagram comes. The bounded queues
are the kernel's socket buffers: what they drop is counted as `queue_full` from the kernel's own count.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pqspec.session import Session
from pqspec.shell import timestamps
from pqspec.shell.digest import digest
from pqspec.shell.ledger import Ledger
from pqspec.shell.roaming import Roaming
from pqspec.shell.sockets import bound, failed_send, receiver
from pqtunnel import packet
from pqtunnel.config import Address, EndpointConfig, Route
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.endpoint.plane import Bins, ControlFrame, SessionHandle
from pqtunnel.errors import SessionError, TunnelError
from pqtunnel.primitives import Primitives

_DATAGRAM_BYTES: Final = 65_536
_REMEMBERED_EPOCHS: Final = 64


@dataclass(frozen=True)
class Gate:
    """Open while a traffic window runs: which route counts, and the window's place (from 1) in the ledger."""

    route: Route
    place: int
    is_open: bool


@dataclass
class Cell:
    """What one cell's data plane works on; replaced as a whole by the next `prepare`."""

    session: Session
    counters: CellCounters
    ledger: Ledger | None
    bin_fields: tuple[str, ...] = ()

    def bins(self, since: int) -> Bins:
        """None: what a bin counts is not specified here."""
        return ()


class DataPlane:
    """The UDP side of an endpoint. Threads run from `open` to `close`; cells come and go beneath them."""

    kind = "python"

    def __init__(self, config: EndpointConfig, note: Callable[[str], None]) -> None:
        self._config = config
        self._note = note
        home = (config.peer, config.peer_sealed_port) if config.peer else None
        self._roaming = Roaming(home, os.urandom, note)
        self._first_sent_ns: dict[int, int] = {}
        self._cell: Cell | None = None
        self._gate = Gate(config.routes["mavproxy"], 0, False)
        self._lock = threading.Lock()  # session state: sealing, opening, installing keys
        self._stopping = False
        self._noted: set[str] = set()
        self._sources = {route.source for route in config.routes.values()}
        self._threads: list[threading.Thread] = []
        self.confirmed = threading.Event()
        """Set by the first authenticated packet of an epoch; cleared by the caller before it dials."""
        self.first_plaintext = threading.Event()
        """Set by the next datagram on the gate's route, gate open or not; cleared by the caller."""
        self.last_plaintext_ns = 0
        self._last_data_ns = 0
        self._in_hand = [False, False]
        """Has the plaintext, the sealed thread a datagram that it has not booked yet?"""
        self.timestamp_source = timestamps.SOURCE_CLOCK
        self._plain = bound(config.bind, config.plaintext_port, "PQ_PLAINTEXT_PORT")
        try:
            self._sealed = bound(config.bind, config.sealed_port, "PQ_SEALED_PORT")
        except TunnelError:
            self._plain.close()
            raise

    # ------------------------------------------------------------------ life

    def open(self) -> None:
        """Start both threads."""
        self.timestamp_source = timestamps.enable(self._plain)
        timestamps.enable(self._sealed)
        for name, loop in (("plaintext", self._plain_loop), ("sealed", self._sealed_loop)):
            thread = threading.Thread(target=loop, name=f"{self._config.role}-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop both threads and free the ports; calling again changes nothing."""
        if self._stopping:
            return
        self._stopping = True
        for sock in (self._plain, self._sealed):
            host, port = sock.getsockname()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
                # A blocked receive cannot be cancelled portably; one empty datagram to ourselves wakes it.
                waker.sendto(b"", ("127.0.0.1" if host == "0.0.0.0" else host, port))
        for thread in self._threads:
            thread.join(timeout=2.0)
        self._plain.close()
        self._sealed.close()

    @property
    def plaintext_address(self) -> Address:
        """Local address of plaintext in."""
        host, port = self._plain.getsockname()
        return str(host), int(port)

    @property
    def sealed_address(self) -> Address:
        """Local address of sealed datagrams."""
        host, port = self._sealed.getsockname()
        return str(host), int(port)

    # ------------------------------------------------------------------ control, called by the endpoint

    def new_cell(self, primitives: Primitives, *, ledger: bool) -> Cell:
        """A fresh cell for `attach`."""
        counters = CellCounters()
        session = Session(self._config.role, counters.data, primitives)
        return Cell(session, counters, Ledger() if ledger else None)

    def attach(self, cell: Cell | None) -> None:
        """Work on `cell` from the next datagram on; None: drop everything."""
        with self._lock:
            if self._cell is not None:
                self._cell.session.close()
            self._cell = cell
            self._roaming.reset()
            self._first_sent_ns.clear()
            self._noted.clear()
            self._gate = Gate(self._config.routes["mavproxy"], 0, False)

    @property
    def peer(self) -> Address | None:
        """Where sealed datagrams go now."""
        return self._roaming.peer

    def set_peer(self, address: Address) -> None:
        """Where sealed datagrams go, until an answered challenge moves them."""
        with self._lock:
            self._roaming.set_peer(address)

    def set_gate(self, route: Route, place: int, *, is_open: bool) -> None:
        """Open or close the gate of a window."""
        self._gate = Gate(route, place, is_open)

    @property
    def last_data_ns(self) -> int:
        """Monotonic time of the last data packet in either direction, now while a datagram is in a thread's
        hands, which may have sent what it has not booked yet; 0: never. What draining looks at."""
        return time.monotonic_ns() if any(self._in_hand) else self._last_data_ns

    @property
    def route(self) -> Route:
        """The route of the current or last window."""
        return self._gate.route

    @property
    def gate_is_open(self) -> bool:
        """Is plaintext forwarded now?"""
        return self._gate.is_open

    def with_session(self, action: Callable[[SessionHandle], None]) -> None:
        """Run `action` on the cell's session while neither thread touches it; without a cell, nothing."""
        with self._lock:
            if self._cell is not None:
                action(self._cell.session)

    def bins(self, since: int) -> Bins | None:
        """None: what a bin counts is not specified here."""
        return None

    def send_keepalive(self) -> bool:
        """Send one sealed keepalive; False when there is no key to send on yet."""
        return self.send_control(packet.KEEPALIVE)

    def send_control(self, kind: int, payload: bytes = b"") -> bool:
        """Send one sealed control packet to the peer; False when there is no key or no peer yet."""
        with self._lock:
            cell, peer = self._cell, self._roaming.peer
            if cell is None or peer is None:
                return False
            try:
                datagram, epoch = cell.session.seal_control(kind, payload), cell.session.epoch
            except SessionError:
                return False
        if self._send(self._sealed, datagram, peer, cell) and epoch is not None:
            self._note_first(epoch)
        return True

    def take_control(self) -> list[ControlFrame]:
        """Control packets (epoch-ack, rekey-request, path frames) since the last call, oldest first."""
        with self._lock:
            return self._roaming.take()

    def first_sent_ns(self, epoch: int) -> int | None:
        """Monotonic time of the first packet sent on `epoch`; None: none, or too many epochs ago."""
        return self._first_sent_ns.get(epoch)

    def _note_first(self, epoch: int) -> None:
        if epoch not in self._first_sent_ns:
            with self._lock:
                self._first_sent_ns.setdefault(epoch, time.monotonic_ns())
                if len(self._first_sent_ns) > _REMEMBERED_EPOCHS:
                    del self._first_sent_ns[next(iter(self._first_sent_ns))]

    def announce(self) -> None:
        """One empty datagram to the plaintext target: a listener learns our address before traffic."""
        cell = self._cell
        try:
            self._plain.sendto(b"", self._config.routes["mavproxy"].target)
        except OSError as error:
            self._note_once(f"announce to {self._config.routes['mavproxy'].target}: {error}")
            return
        if cell is not None:
            cell.counters.data["plaintext_announce"] += 1

    def deliver_notes(self) -> None:
        """Complaints reach the log at once here."""

    # ------------------------------------------------------------------ plaintext → sealed

    def _plain_loop(self) -> None:
        for cell, payload, source, t_in_ns in self._received(self._plain, 0, "plaintext"):
            if cell is None:
                self._wake_on_first(source)
            else:
                self._forward_plaintext(cell, payload, source, t_in_ns)

    def _received(
        self, sock: socket.socket, hand: int, what: str
    ) -> Iterator[tuple[Cell | None, bytes, Address, int]]:
        """Datagrams with their cell, source and time until the plane stops; the kernel's drops are booked."""
        receive = receiver(sock)
        view = memoryview(bytearray(_DATAGRAM_BYTES))
        dropped_before = 0
        while True:
            self._in_hand[hand] = False
            try:
                length, ancillary, _flags, source = receive((view,), timestamps.ANCILLARY_BYTES)
            except OSError as error:
                if self._stopping:
                    return
                self._note_once(f"{what} receive: {error}")  # an ICMP error changes nothing
                continue
            if self._stopping:
                return
            if not length and sock is self._plain:
                continue  # an announce, or our own waker
            self._in_hand[hand] = True
            t_in_ns, drops = timestamps.read(ancillary)
            cell = self._cell
            if cell is None:
                dropped_before = drops or dropped_before
            elif drops is not None and drops != dropped_before:
                cell.counters.data["queue_full"] += (drops - dropped_before) & 0xFFFFFFFF
                dropped_before = drops
            yield cell, bytes(view[:length]), source, t_in_ns

    def _wake_on_first(self, source: Address) -> bool:
        """Is this datagram from the gate's route? If so, note it for whoever waits for the first one."""
        gate = self._gate
        if source[0] != gate.route.source:
            return False
        for route in self._config.routes.values():
            # Two routes may share a host: then the port of the other route's peer tells them apart.
            if route is not gate.route and source == route.target:
                return False
        self.last_plaintext_ns = time.monotonic_ns()
        if not self.first_plaintext.is_set():
            self.first_plaintext.set()
        return True

    def _forward_plaintext(self, cell: Cell, payload: bytes, source: Address, t_in_ns: int) -> None:
        counters = cell.counters.data
        if source[0] not in self._sources:
            counters["wrong_source"] += 1
            return
        on_route = self._wake_on_first(source)
        gate = self._gate
        if not gate.is_open or not on_route:
            counters["gated"] += 1
            return
        if len(payload) > packet.MAX_PLAINTEXT_BYTES:
            counters["oversize"] += 1
            return
        counters["plaintext_in"] += 1
        counters["plaintext_in_bytes"] += len(payload)
        with self._lock:
            peer = self._roaming.peer
            if peer is None or not cell.session.can_send:
                counters["not_ready"] += 1
                return
            start_ns = time.perf_counter_ns()
            try:
                datagram, epoch, sequence = cell.session.seal_data(payload)
            except SessionError as error:
                counters["not_ready"] += 1
                self._note_once(f"seal: {error}")
                return
            counters["seal_ns_total"] += time.perf_counter_ns() - start_ns
        counters["seal_count"] += 1
        # Before it leaves: who waits for the link to fall silent must not look between sending and noting it.
        self._last_data_ns = time.monotonic_ns()
        if not self._send(self._sealed, datagram, peer, cell):
            return
        t_out_ns = time.time_ns()
        self._note_first(epoch)
        counters["digest_tx"] += digest(sequence, payload)
        if cell.ledger is not None:
            cell.ledger.tx.add(epoch, sequence, len(datagram), t_in_ns, t_out_ns, gate.place)

    # ------------------------------------------------------------------ sealed → plaintext

    def _sealed_loop(self) -> None:
        for cell, datagram, source, t_in_ns in self._received(self._sealed, 1, "sealed"):
            if cell is not None:
                self._forward_sealed(cell, datagram, source, t_in_ns)

    def _forward_sealed(self, cell: Cell, datagram: bytes, source: Address, t_in_ns: int) -> None:
        with self._lock:
            start_ns = time.perf_counter_ns()
            now_ns = time.monotonic_ns()
            received = cell.session.receive(datagram, now_ns)
            spent_ns = time.perf_counter_ns() - start_ns
            if received.kind == 0:
                return  # the session counted the reason
            answers: list[tuple[bytes, Address]] = []
            if not cell.session.is_plain:
                for kind, payload, to in self._roaming.heard(received, source, now_ns, cell.counters.data):
                    try:
                        answers.append((cell.session.seal_control(kind, payload), to))
                    except SessionError as error:
                        self._note_once(f"path: {error}")
        if received.first:
            self.confirmed.set()
            if self._config.role == "gcs" and not cell.session.is_plain:
                self.send_control(packet.EPOCH_ACK)  # the new session carries packets both ways
        for answer, to in answers:
            self._send(self._sealed, answer, to, cell)
        if received.kind != packet.DATA:
            return
        self._last_data_ns = now_ns
        counters = cell.counters.data
        counters["open_count"] += 1
        counters["open_ns_total"] += spent_ns
        counters["digest_rx"] += digest(received.sequence, received.payload)
        gate = self._gate
        if self._send(self._plain, received.payload, gate.route.target, cell):
            counters["plaintext_out"] += 1
            counters["plaintext_out_bytes"] += len(received.payload)
        if cell.ledger is not None:
            cell.ledger.rx.add(
                received.epoch, received.sequence, len(datagram), t_in_ns, time.time_ns(), gate.place
            )

    def _send(self, sock: socket.socket, datagram: bytes, target: Address, cell: Cell) -> bool:
        try:
            sock.sendto(datagram, target)
        except OSError as error:
            name, text = failed_send(error, len(datagram), target)
            with self._lock:
                cell.counters.data[name] += 1
            self._note_once(text)
            return False
        return True

    def _note_once(self, text: str) -> None:
        """The same complaint once a cell: a flood must not become a flood of log lines."""
        if text not in self._noted and len(self._noted) < 50:
            self._noted.add(text)
            self._note(text)
