"""Categories G and H: what the tunnel carried, from both ledgers and both ends' counters.

Loss, reorder, duplicates and delay come from the join on (epoch, sequence), never from one end's word.
Latency needs one clock: on hosts with different boot ids it stays null with that reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pqbase.documents import whole_of
from pqevidence.record.ledger import Column, Join, Joined, join
from pqevidence.record.raw import ROLES, Json, RawCell
from pqtunnel.packet import HEADER_BYTES
from pqtunnel.suites import Suite

TRAFFIC = "traffic"
BULK_PREFIX = "bulk-"
OTHER = {"drone": "gcs", "gcs": "drone"}


@dataclass
class DataPlane:
    """Both directions of a cell joined; None where a ledger is absent. Gates are the drone's, per window."""

    down: Join | None = None
    up: Join | None = None
    tx: dict[str, Column] = field(default_factory=dict)
    rx: dict[str, Column] = field(default_factory=dict)
    gate_s: dict[str, float] = field(default_factory=dict)
    gate_ns: dict[str, tuple[int, int]] = field(default_factory=dict)
    rtt_ms: list[float] = field(default_factory=list)
    overhead_bytes: int | None = None

    def plain_bytes(self, window: Joined) -> int | None:
        """Plaintext bytes delivered: sealed bytes less the fixed overhead of every datagram."""
        if self.overhead_bytes is None:
            return None
        return window.delivered_bytes - self.overhead_bytes * len(window.latency_ns)


def seal_overhead_bytes(suite: Suite | None) -> int | None:
    """What sealing adds to a datagram: header and tag; `plain` has no tag. None for an unknown suite."""
    return None if suite is None else HEADER_BYTES + suite.aead.tag_bytes


def gate_ns(window: Json, role: str) -> tuple[int, int] | None:
    """(open, close) of a role's gate in realtime ns; None where the report lacks either."""
    side = window.get(role) or {}
    opened, closed = side.get("open_ns"), side.get("close_ns")
    return (int(opened), int(closed)) if isinstance(opened, int) and isinstance(closed, int) else None


def data_plane(cell: RawCell, suite: Suite | None) -> DataPlane:
    """Join what is there. A suite switch changes no overhead: every tag has one length, and `plain` switches
    to nothing."""
    plane = DataPlane(overhead_bytes=seal_overhead_bytes(suite))
    if set(cell.ledgers) == set(ROLES):
        plane.tx = {role: cell.ledgers[role].tx for role in ROLES}
        plane.rx = {role: cell.ledgers[role].rx for role in ROLES}
        plane.down = join(plane.tx["drone"], plane.rx["gcs"])
        plane.up = join(plane.tx["gcs"], plane.rx["drone"])
    for name, window in (cell.traffic or {}).items():
        gate = gate_ns(window, "drone")
        if gate is not None and gate[1] > gate[0]:
            plane.gate_ns[name] = gate
            plane.gate_s[name] = (gate[1] - gate[0]) / 1e9
        report = (window.get("gcs") or {}).get("source_report") or {}
        plane.rtt_ms += [float(value) for value in report.get("rtt_ms") or []]
    return plane


def window_counter(counters: dict[str, Json] | None, role: str, window: str, name: str) -> int | None:
    """One counter of one window at one end; None where it is not there."""
    told = window_told(counters, role, window, name)
    return None if told is None else whole_of({name: told}, name)


def window_told(counters: dict[str, Json] | None, role: str, window: str, name: str) -> object:
    """What stands under one name in one window at one end; None where nothing does."""
    return ((counters or {}).get(role, {}).get("windows", {}).get(window) or {}).get(name)
