"""What the endpoint asks of a data plane. The tunnel's is `native.NativeDataPlane`; the tests put the
executable specification (`pqspec.shell.dataplane`) in its place, to hold both against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from pqtunnel.config import Address, Route
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.handshake.established import Epoch
from pqtunnel.primitives import Primitives


class ControlFrame(NamedTuple):
    """An authentic control packet that came in, for the endpoint to read."""

    kind: int
    payload: bytes
    epoch: int
    source: Address
    monotonic_ns: int


class SessionHandle(Protocol):
    """The part of a session that the endpoint uses; sealing and opening belong to the data plane."""

    @property
    def epoch(self) -> int | None: ...

    @property
    def sent_on(self) -> int | None: ...

    @property
    def can_send(self) -> bool: ...

    def set_rtt(self, rtt_ns: int) -> None: ...

    def index_is_free(self, index: int) -> bool: ...

    def install(self, established: Epoch, now_ns: int) -> None: ...

    def expire(self, now_ns: int) -> None: ...

    def keepalive_due(self, now_ns: int) -> bool: ...

    def silent(self, now_ns: int) -> bool: ...

    def rekey_due(self, now_ns: int) -> bool: ...


class LedgerPages(Protocol):
    """A cell's ledger as it is read."""

    @property
    def cut(self) -> int:
        """Rows over the limit: counted, not kept."""

    def line_count(self) -> int:
        """Lines including the header."""

    def lines(self, names: Sequence[str], since: int, limit: int) -> list[str]:
        """CSV lines [since, since + limit), header as line 0."""


class Waitable(Protocol):
    """The part of threading.Event that the endpoint uses."""

    def wait(self, timeout: float) -> bool: ...

    def is_set(self) -> bool: ...

    def clear(self) -> None: ...


Bins = Sequence[tuple[int, Sequence[int]]]
"""(number, counts) of bins in which something happened, ascending; a number is realtime ns // 20 ms."""


class CellParts(Protocol):
    """What one cell's data plane works on. A cell may be attached only to the plane that made it."""

    @property
    def session(self) -> SessionHandle: ...

    @property
    def counters(self) -> CellCounters: ...

    @property
    def ledger(self) -> LedgerPages | None: ...

    @property
    def bin_fields(self) -> tuple[str, ...]: ...

    def bins(self, since: int) -> Bins:
        """Bins from number `since` on, also after the plane has let go of the cell."""


class Plane(Protocol):
    """The UDP side of an endpoint; meanings as in `native.NativeDataPlane`."""

    kind: str
    """`python` or `native`."""

    @property
    def first_plaintext(self) -> Waitable: ...

    @property
    def confirmed(self) -> Waitable: ...

    @property
    def last_plaintext_ns(self) -> int: ...

    @property
    def last_data_ns(self) -> int: ...

    @property
    def timestamp_source(self) -> str: ...

    @property
    def plaintext_address(self) -> Address: ...

    @property
    def sealed_address(self) -> Address: ...

    @property
    def route(self) -> Route: ...

    @property
    def gate_is_open(self) -> bool: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def new_cell(self, primitives: Primitives, *, ledger: bool) -> CellParts: ...

    def attach(self, cell: Any | None) -> None: ...

    @property
    def peer(self) -> Address | None: ...

    def set_peer(self, address: Address) -> None: ...

    def set_gate(self, route: Route, place: int, *, is_open: bool) -> None: ...

    def with_session(self, action: Callable[[SessionHandle], None]) -> None: ...

    def send_keepalive(self) -> bool: ...

    def bins(self, since: int) -> Bins | None:
        """Counts of each 20 ms from bin number `since` (realtime ns // 20 ms) on; None between two cells."""

    def send_control(self, kind: int, payload: bytes = b"") -> bool: ...

    def take_control(self) -> list[ControlFrame]: ...

    def first_sent_ns(self, epoch: int) -> int | None: ...

    def announce(self) -> None: ...

    def deliver_notes(self) -> None: ...
