"""What the endpoint asks of a data plane, and the choice between the two there are.

`dataplane.DataPlane` is the executable specification; `native.NativeDataPlane` does the same on threads of
the Rust core, without the interpreter. PQ_DATAPLANE picks; without it the native one runs where its wheel is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from pqtunnel.config import Address, EndpointConfig, Route
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.errors import ProviderMissing
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

    def bins(self, since: int) -> Bins | None:
        """Bins from number `since` on, also after the plane has let go of the cell; None where not kept."""


class Plane(Protocol):
    """The UDP side of an endpoint; meanings as in `dataplane.DataPlane`."""

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
        """Counts of each 20 ms from bin number `since` (realtime ns // 20 ms) on; None where not kept."""

    def send_control(self, kind: int, payload: bytes = b"") -> bool: ...

    def take_control(self) -> list[ControlFrame]: ...

    def first_sent_ns(self, epoch: int) -> int | None: ...

    def announce(self) -> None: ...

    def deliver_notes(self) -> None: ...


def make_plane(config: EndpointConfig, note: Callable[[str], None]) -> Plane:
    """The data plane that the configuration asks for. Raises PortTakenError, and ProviderMissing when the
    native one is asked for by name and its wheel is not installed."""
    from pqtunnel.endpoint.dataplane import DataPlane

    if config.dataplane == "python":
        return DataPlane(config, note)
    try:
        import pq_core  # noqa: F401  only whether it is there
    except ImportError as error:
        if config.dataplane == "auto":
            return DataPlane(config, note)
        raise ProviderMissing(
            f"PQ_DATAPLANE is native and the wheel pq_core is not installed ({error})",
            hint="Run inside the tunnel image, build tunnel/native with maturin, or set PQ_DATAPLANE=python.",
        ) from error
    from pqtunnel.endpoint.native import NativeDataPlane

    return NativeDataPlane(config, note)
