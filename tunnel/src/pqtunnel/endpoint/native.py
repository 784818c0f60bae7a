"""The native data plane as `plane.Plane`.

Sockets, threads, sessions, counters and ledger live in the Rust core (`pq_core`); this file only translates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pq_core

from pqtunnel import packet
from pqtunnel.config import Address, EndpointConfig, Route
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.endpoint.plane import Bins, ControlFrame, SessionHandle
from pqtunnel.endpoint.sockets import PortTakenError
from pqtunnel.primitives import Primitives

SOURCE_KERNEL: Final = "kernel"
SOURCE_CLOCK: Final = "clock"
"""Where the receive time of a datagram comes from."""


class NativeCounters(CellCounters):
    """Counters that the core keeps; each reading is one consistent copy."""

    def __init__(self, session: pq_core.Session) -> None:
        super().__init__()
        self._session = session

    def now(self) -> dict[str, int]:
        """Totals of this instant."""
        return self._session.counters()


class NativeLedger:
    """Ledger that the core keeps."""

    def __init__(self, session: pq_core.Session) -> None:
        self._session = session

    @property
    def cut(self) -> int:
        """Rows over the limit: counted, not kept."""
        return self._session.ledger_cut()

    def line_count(self) -> int:
        """Lines including the header."""
        return self._session.ledger_line_count()

    def lines(self, names: Sequence[str], since: int, limit: int) -> list[str]:
        """CSV lines [since, since + limit), header as line 0."""
        return self._session.ledger_lines(list(names), since, limit)


@dataclass
class NativeCell:
    """What one cell's data plane works on."""

    session: pq_core.Session
    counters: NativeCounters
    ledger: NativeLedger | None

    @property
    def bin_fields(self) -> tuple[str, ...]:
        """Names of a bin's counts."""
        return tuple(pq_core.BIN_FIELDS)

    def bins(self, since: int) -> Bins:
        """Bins from number `since` on, also after the plane has let go of the cell."""
        return self.session.bins(since)


class NativeDataPlane:
    """The UDP side of an endpoint on two native threads. Raises PortTakenError."""

    kind = "native"

    def __init__(self, config: EndpointConfig, note: Callable[[str], None]) -> None:
        self._config = config
        self._note = note
        self._cell: NativeCell | None = None
        self._routes = [config.routes["mavproxy"]]
        self._routes += [route for route in config.routes.values() if route is not self._routes[0]]
        self._gate = (self._routes[0], False)
        self._last_ns = (0, 0)
        self._closed = False
        peer = (config.peer, config.peer_sealed_port) if config.peer else None
        try:
            self._core = pq_core.DataPlane(
                config.role,
                (config.bind, config.plaintext_port),
                (config.bind, config.sealed_port),
                peer,
                [(route.source, route.target) for route in self._routes],
            )
        except OSError as error:
            plain = error.filename == "plaintext"
            port = config.plaintext_port if plain else config.sealed_port
            setting = "PQ_PLAINTEXT_PORT" if plain else "PQ_SEALED_PORT"
            raise PortTakenError(
                f"UDP {config.bind}:{port} ({setting}) cannot be bound: {error.strerror}"
            ) from error
        self.first_plaintext = self._core.first_plaintext
        self.confirmed = self._core.confirmed
        self.timestamp_source = SOURCE_CLOCK

    # ------------------------------------------------------------------ life

    def open(self) -> None:
        """Start both threads."""
        self._core.open()
        self.timestamp_source = SOURCE_KERNEL if self._core.is_stamped else SOURCE_CLOCK

    def close(self) -> None:
        """Stop both threads and free the ports; calling again changes nothing."""
        if not self._closed:
            self.deliver_notes()
            self._last_ns = self._core.last_plaintext_ns, self._core.last_data_ns
            self._closed = True
            self._core.close()

    @property
    def plaintext_address(self) -> Address:
        """Local address of plaintext in."""
        return self._core.plaintext_address

    @property
    def sealed_address(self) -> Address:
        """Local address of sealed datagrams."""
        return self._core.sealed_address

    # ------------------------------------------------------------------ control, called by the endpoint

    def new_cell(self, primitives: Primitives, *, ledger: bool) -> NativeCell:
        """A fresh cell for `attach`; the core brings its own AEADs."""
        session = pq_core.Session(self._config.role, ledger=ledger)
        return NativeCell(session, NativeCounters(session), NativeLedger(session) if ledger else None)

    def attach(self, cell: NativeCell | None) -> None:
        """Work on `cell` from the next batch on; None: drop everything."""
        self._cell = cell
        self._gate = (self._routes[0], False)
        if not self._closed:
            self.deliver_notes()
            self._core.attach(cell.session if cell is not None else None)

    @property
    def peer(self) -> Address | None:
        """Where sealed datagrams go now."""
        return None if self._closed else self._core.peer

    def set_peer(self, address: Address) -> None:
        """Where sealed datagrams go, until an answered challenge moves them."""
        if not self._closed:
            self._core.set_peer(address)

    def set_gate(self, route: Route, place: int, *, is_open: bool) -> None:
        """Open or close the gate of a window."""
        self._gate = (route, is_open)
        if not self._closed:
            self._core.set_gate(self._routes.index(route), place, is_open)

    @property
    def route(self) -> Route:
        """The route of the current or last window."""
        return self._gate[0]

    @property
    def gate_is_open(self) -> bool:
        """Is plaintext forwarded now?"""
        return self._gate[1]

    @property
    def last_plaintext_ns(self) -> int:
        """Monotonic time of the last datagram on the gate's route; 0: never."""
        return self._last_ns[0] if self._closed else self._core.last_plaintext_ns

    @property
    def last_data_ns(self) -> int:
        """Monotonic time of the last data packet in either direction, now while a batch is in a thread's
        hands; 0: never."""
        return self._last_ns[1] if self._closed else self._core.last_data_ns

    def with_session(self, action: Callable[[SessionHandle], None]) -> None:
        """Run `action` on the cell's session, whose every method is atomic; nothing happens without a
        cell."""
        cell = self._cell
        if cell is not None:
            action(cell.session)

    def bins(self, since: int) -> Bins | None:
        """Counts of each 20 ms from bin `since` on; None between two cells."""
        cell = self._cell
        return None if cell is None else cell.bins(since)

    def send_keepalive(self) -> bool:
        """Send one sealed keepalive; False when there is no key to send on yet."""
        return self.send_control(packet.KEEPALIVE)

    def send_control(self, kind: int, payload: bytes = b"") -> bool:
        """Send one sealed control packet to the peer; False when there is no key or no peer yet."""
        return not self._closed and self._core.send_control(kind, payload)

    def take_control(self) -> list[ControlFrame]:
        """Control packets (epoch-ack, rekey-request, path frames) since the last call, oldest first."""
        return [] if self._closed else [ControlFrame(*frame) for frame in self._core.take_control()]

    def first_sent_ns(self, epoch: int) -> int | None:
        """Monotonic time of the first packet sent on `epoch`; None: none, or too many epochs ago."""
        return None if self._closed else self._core.first_sent_ns(epoch)

    def announce(self) -> None:
        """One empty datagram to the plaintext target."""
        if not self._closed:
            self._core.announce()

    def deliver_notes(self) -> None:
        """Hand the complaints of the native threads to the endpoint's log."""
        if not self._closed:
            for text in self._core.take_notes():
                self._note(text)
