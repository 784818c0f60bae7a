"""A cell as one end holds it: the controller's orders and everything the cell has left here so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.endpoint.journal import Journal
from pqtunnel.endpoint.pilot import ControlInputs
from pqtunnel.endpoint.plane import Bins, LedgerPages
from pqtunnel.endpoint.schedule import Armed
from pqtunnel.epochs import EpochBook
from pqtunnel.errors import TunnelError
from pqtunnel.rekey import Requester
from pqtunnel.scheduling import PrimitiveSampling

PLAIN: Final = "plain"


class WindowError(TunnelError):
    """A traffic window is opened twice, closed when not open, or names an unknown route."""

    code = "bad_window"
    hint = "open a window with traffic_open, end it with traffic_run or traffic_close"


class NoCellError(TunnelError):
    """There is no cell to work on."""

    code = "bad_state"
    hint = "call prepare first"


@dataclass(frozen=True)
class CellPlan:
    """The controller's orders for one cell."""

    cell_id: str
    suite_id: str
    min_level: int
    ledger: bool
    seed: int
    accepted_suites: tuple[str, ...] = ()
    """What may be spoken during the cell, `suite_id` among them: a rekey may switch between these."""
    allow_plain: bool = False
    feed: bool = False
    """Keep and export 20 ms bins for a detector."""
    drone_auth: str = "psk"
    """"psk", or "signature": the drone signs too. Both ends must be told the same."""

    def __post_init__(self) -> None:
        if not self.accepted_suites:
            object.__setattr__(self, "accepted_suites", (self.suite_id,))


@dataclass
class CellWork:
    """Everything one cell has at this end; kept until the next `prepare` so that it can be fetched."""

    plan: CellPlan
    counters: CellCounters
    journal: Journal
    ledger: LedgerPages | None
    start_ns: int
    bins: Callable[[int], Bins]
    """Counts of each 20 ms from a bin number on."""
    bin_fields: tuple[str, ...]
    """Names of a bin's counts."""
    suite_id: str
    """The suite in use: the plan's until a rekey switches."""
    end_ns: int | None = None
    dialled: int = 0
    handshakes: int = 0
    sampling: PrimitiveSampling = field(default_factory=PrimitiveSampling)
    window: str | None = None
    window_open_ns: int = 0
    redial_attempts: int = 0
    redial_after_ns: int = 0
    handshake_lock: threading.Lock = field(default_factory=threading.Lock)
    book: EpochBook = field(default_factory=EpochBook)
    requester: Requester = field(default_factory=Requester)
    schedule: Armed | None = None
    newest_arrivals: dict[bytes, int] = field(default_factory=dict)
    """At the gcs, by the drone's key id: the connection of its newest completed handshake."""
    served_key_id: bytes | None = None
    """At the gcs: the drone that has the one session there is."""
    inputs: ControlInputs = field(default_factory=ControlInputs)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def is_plain(self) -> bool:
        """Does this cell run without any tunnel cryptography?"""
        return self.plan.suite_id == PLAIN

    @property
    def ledger_cut(self) -> int:
        """Ledger rows beyond the limit: counted, not kept."""
        return 0 if self.ledger is None else self.ledger.cut
