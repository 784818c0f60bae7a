"""One end of a simulated cell: session, counters, ledger, journal, and what a sampler would write."""

from __future__ import annotations

import json
from typing import Literal

from pqbase.documents import Json
from pqlab.sim.clock import START_NS, VirtualClock
from pqspec.session import Session
from pqspec.shell.digest import digest
from pqspec.shell.ledger import Ledger
from pqtunnel import packet
from pqtunnel.endpoint.counters import CellCounters
from pqtunnel.epochs import EpochBook
from pqtunnel.primitives.interfaces import Primitives

Role = Literal["drone", "gcs"]
#: invented cost of sealing or opening one datagram, and of one pass through a socket
CRYPTO_NS, SOCKET_NS = 2_000, 6_000
_TICK_NS = 100_000_000


class End:
    """State of one end from `prepare` to the next `prepare`."""

    def __init__(self, role: Role, clock: VirtualClock, primitives: Primitives, ledger: bool) -> None:
        self.role: Role = role
        self.counters = CellCounters()
        self.book = EpochBook()
        self.session = Session(role, self.counters.data, primitives)
        self.ledger = Ledger() if ledger else None
        self.events: list[str] = []
        self.spans: list[str] = []
        self.log: list[str] = []
        self.telemetry: list[str] = []
        self.busy_ns = 0
        self.open_ns = 0
        self.report: Json = {}
        self._clock = clock
        self._start_ns = clock.realtime_ns()

    def event(self, kind: str, *, at_ns: int | None = None, **details: object) -> None:
        """A row of events.ndjson, stamped on both clocks; `at_ns` (monotonic) where it is not now."""
        mono_ns = self._clock.mono_ns() if at_ns is None else at_ns
        stamps = {"t_ns": START_NS + mono_ns, "mono_ns": mono_ns}
        row = {**stamps, "host": self.role, "event": kind, **details}
        self.events.append(json.dumps(row, separators=(",", ":")))

    def send(self, plaintext: bytes, t_in_ns: int) -> tuple[bytes, int]:
        """Seal one datagram that came in at `t_in_ns` (monotonic); returns it and when it left."""
        data = self.counters.data
        datagram, epoch, sequence = self.session.seal_data(plaintext)
        left_ns = t_in_ns + SOCKET_NS + CRYPTO_NS
        data["plaintext_in"] += 1
        data["plaintext_in_bytes"] += len(plaintext)
        data["seal_count"] += 1
        data["seal_ns_total"] += CRYPTO_NS
        data["digest_tx"] += digest(sequence, plaintext)
        self.busy_ns += SOCKET_NS + CRYPTO_NS
        if self.ledger is not None:
            times = (START_NS + t_in_ns, START_NS + left_ns)
            self.ledger.tx.add(epoch, sequence, len(datagram), *times, self._window)
        return datagram, left_ns

    def receive(self, datagram: bytes, arrived_ns: int) -> bytes | None:
        """Open one datagram; its plaintext, or None for what is control or was refused (and counted)."""
        data = self.counters.data
        got = self.session.receive(datagram, arrived_ns)
        data["open_count"] += 1
        data["open_ns_total"] += CRYPTO_NS
        self.busy_ns += SOCKET_NS + CRYPTO_NS
        if got.kind != packet.DATA:
            return None
        data["plaintext_out"] += 1
        data["plaintext_out_bytes"] += len(got.payload)
        data["digest_rx"] += digest(got.sequence, got.payload)
        if self.ledger is not None:
            times = (START_NS + arrived_ns, START_NS + arrived_ns + SOCKET_NS + CRYPTO_NS)
            self.ledger.rx.add(got.epoch, got.sequence, len(datagram), *times, self._window)
        return got.payload

    @property
    def _window(self) -> int:
        return len(self.counters.window_names)

    def finish(self) -> None:
        """Write the sampler's lines for the whole cell: ten ticks a second of virtual time."""
        end_ns = self._clock.realtime_ns()
        first_ns = -(-self._start_ns // _TICK_NS) * _TICK_NS
        ticks = range(first_ns, end_ns, _TICK_NS)
        share = self.busy_ns // max(1, len(ticks))
        for tick, t_ns in enumerate(ticks):
            self.telemetry += _lines(self.role, tick, share, t_ns)


def _lines(role: Role, tick: int, busy_ns: int, t_ns: int) -> list[str]:
    percent = 100.0 * busy_ns / _TICK_NS
    used_ns, total_ms = busy_ns * tick, 100 * tick
    account = f"expected_count={tick + 1}i,got_count={tick + 1}i,late_count=0i,lost_count=0i"
    fields = {
        "pq_cpu": f"system_pct={percent:.4f},steal_pct=0.0,system_busy_ms={used_ns // 1_000_000}i,"
        f"system_steal_ms=0i,system_total_ms={total_ms}i,process_cpu_ns={used_ns}i,process_pct={percent:.4f}",
        "pq_sampler": f"{account},stored_count={tick + 1}i,telegraf_dropped_count=0i",
    }
    return [f"{name},host={role},ring=sim {values} {t_ns}" for name, values in fields.items()]
