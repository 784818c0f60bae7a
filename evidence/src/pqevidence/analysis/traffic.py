"""The table of traffic, from counters, traffic reports and the two-sided ledger.

Loss and delay join on (direction, epoch, sequence): a datagram of the sender's ledger without a partner in
the receiver's is lost. Delay = plaintext in the sender's kernel to plaintext handed on by the receiver, both
on one realtime clock; where the ends do not share a clock there is no delay, and the record says why.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pqbase.documents import Json, exact_or_none, number_of, part_of, whole_of
from pqbase.stats import quantile7, tail
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.latency import LatencyShares
from pqevidence.analysis.load import BundleData, Cell, unreadable
from pqevidence.analysis.table import Table, Value, as_value

TRAFFIC = "traffic"
BULK_PREFIX = "bulk-"
DIRECTIONS = {"down": ("drone", "gcs"), "up": ("gcs", "drone")}


COLUMNS = (
    *CELL,
    Column("window", "traffic, or a rung of the ladder"),
    Column("route", "what the traffic went through"),
    Column("direction", "down: drone to ground; up: ground to drone", "direction"),
    Column("source", "what made the traffic", "source"),
    Column("profile", "mix of messages that was asked for"),
    Column("nominal_rate_hz", "rate that was asked for", "nominal", "Hz", True),
    Column("duration_s", "how long the drone's gate was open", "open", "s", True),
    Column("sent_count", "datagrams that the sender sealed", "sent", "datagrams", True),
    Column("received_count", "datagrams that the receiver opened", "received", "datagrams", True),
    Column("lost_count", "the difference", "lost", "datagrams", True),
    Column("loss_pct", "the same, per cent of those sent", "loss", "%", True),
    Column("achieved_rate_hz", "sent over duration", "rate", "Hz", True),
    Column("rate_deviation_pct", "achieved against nominal rate", "deviation", "%", True),
    Column("digest_sent", "sum of hashes of sequence and plaintext at the sender"),
    Column("digest_received", "the same at the receiver"),
    Column("digest_equal", "are both equal?", "digest of both ends"),
    Column("latency_n", "datagrams in both ledgers", "joined", "datagrams", True),
    Column("latency_p50_ms", "one-way latency: median", "p50", "ms", True),
    Column("latency_p95_ms", "the same: 95th percentile", "p95", "ms", True),
    Column("latency_p99_ms", "the same: 99th percentile", "p99", "ms", True),
    Column("latency_max_ms", "the same: the longest", "max", "ms", True),
    Column("latency_reason", "why there is no latency"),
)


@dataclass
class Joined:
    """One direction of one window after the join."""

    sent: int = 0
    delays_ms: array[float] = field(default_factory=lambda: array("d"))

    @property
    def received(self) -> int:
        """Datagrams with a partner in the receiver's ledger."""
        return len(self.delays_ms)


@dataclass
class Ledger:
    """One end's rows: sent as (key, plaintext in ns, window), received as key → handed on ns.

    A key is the text ``epoch,sequence``: the join needs equality only, and text saves two conversions a row.
    """

    sent: list[tuple[str, int, str]] = field(default_factory=list)
    received: dict[str, int] = field(default_factory=dict)


def join_ledgers(cell: Cell) -> dict[tuple[str, str], Joined] | None:
    """(window, direction) → joined datagrams; None when the cell kept no ledger at both ends."""
    if cell.known.joined is not None:
        return cell.known.joined
    paths = {role: cell.directory / f"ledger.{role}.csv" for role in ("drone", "gcs")}
    if not all(path.is_file() for path in paths.values()):
        return None
    ledgers = {role: read_ledger(path) for role, path in paths.items()}
    joined: dict[tuple[str, str], Joined] = defaultdict(Joined)
    for direction, (source, sink) in DIRECTIONS.items():
        arrivals = ledgers[sink].received
        for key, t_in_ns, window in ledgers[source].sent:
            entry = joined[window, direction]
            entry.sent += 1
            handed_on_ns = arrivals.get(key)
            if handed_on_ns is not None:
                entry.delays_ms.append((handed_on_ns - t_in_ns) / 1e6)
    return dict(joined)


def read_ledger(path: Path) -> Ledger:
    """Rows of one ledger; a row that does not have seven fields is an error that names its line."""
    ledger = Ledger()
    with path.open(encoding="ascii") as handle:
        next(handle, None)
        for number, line in enumerate(handle, start=2):
            try:
                direction, epoch, sequence, _, t_in, t_out, window = line.rstrip("\n").split(",")
                if direction == "tx":
                    ledger.sent.append((f"{epoch},{sequence}", int(t_in), window))
                else:
                    ledger.received[f"{epoch},{sequence}"] = int(t_out)
            except ValueError as error:
                raise unreadable(path, f"line {number}: {error}") from error
    return ledger


def shared_clock(cell: Cell) -> tuple[bool, str | None]:
    """Whether one clock stamped both ledgers, by the record's own account."""
    valid = cell.value("H", "one_way_latency_valid")
    if valid is not None and valid["value"] is True:
        return True, None
    reason = cell.value("H", "latency_invalid_reason")
    text = (reason or {}).get("value") or (valid or {}).get("reason")
    return False, str(text) if text else "the record does not say that both ends share a clock"


def traffic_table(bundle: BundleData, shares: LatencyShares | None = None) -> Table:
    """One row a cell, window and direction: counts, rate, loss, digests, delay. shares: is given the delays
    of each cell, because joining the ledgers is what takes long."""
    table = Table("traffic", names(COLUMNS))
    for cell in bundle.cells:
        joined = join_ledgers(cell)
        for window in cell.traffic_windows:
            for direction in DIRECTIONS:
                row = _window_row(cell, window, direction, joined)
                if row is not None:
                    table.add(**cell_columns(cell), **row)
                entry = (joined or {}).get((window, direction))
                counts = row is not None and row.get("latency_n") and cell.verdict == "pass"
                if shares is not None and entry is not None and counts and window == TRAFFIC:
                    shares.take(cell, direction, entry.sent, entry.delays_ms)
    return table


def _window_row(
    cell: Cell, window: str, direction: str, joined: dict[tuple[str, str], Joined] | None
) -> dict[str, Value] | None:
    source, sink = DIRECTIONS[direction]
    out = counters_of(cell, source, window)
    into = counters_of(cell, sink, window)
    if not out or not into:
        return None
    report = cell.traffic_windows[window]
    spec = part_of(report, "spec", {})
    duration_s = duration_s_of(report)
    sent, received = whole_of(out, "tx_data"), whole_of(into, "rx_ok")
    if sent == 0 and received == 0 and window.startswith(BULK_PREFIX):
        return None  # the ladder loads one direction; an idle other one is no finding
    nominal = number_of(spec, "rate_hz") if direction == "down" and spec.get("rate_hz") else None
    achieved = sent / duration_s if duration_s else None
    return {
        "window": window,
        "route": as_value(report.get("route")),
        "direction": direction,
        "source": as_value(part_of(report, source, {}).get("source")),
        "profile": as_value(spec.get("profile")) if direction == "down" else None,
        "nominal_rate_hz": nominal,
        "duration_s": duration_s,
        "sent_count": sent,
        "received_count": received,
        "lost_count": sent - received,
        "loss_pct": 100.0 * (sent - received) / sent if sent else None,
        "achieved_rate_hz": achieved,
        "rate_deviation_pct": 100.0 * (achieved / nominal - 1.0) if nominal and achieved else None,
        "digest_sent": as_value(out.get("digest_tx")),
        "digest_received": as_value(into.get("digest_rx")),
        "digest_equal": out.get("digest_tx") == into.get("digest_rx"),
        **_latency(cell, (joined or {}).get((window, direction)), joined is not None),
    }


def _latency(cell: Cell, entry: Joined | None, has_ledger: bool) -> dict[str, Value]:
    valid, reason = shared_clock(cell)
    if not has_ledger:
        return {"latency_reason": "the ledger was off in this cell"}
    if not valid:
        return {"latency_reason": reason}
    if (busy := cell.why_invalid("H", "one_way_latency_p50_ms")) is not None:
        return {"latency_reason": busy}
    if entry is None or not entry.delays_ms:
        return {"latency_reason": "no datagram was joined"}
    delays = sorted(entry.delays_ms)
    return {
        "latency_n": len(delays),
        "latency_p50_ms": quantile7(delays, 0.5),
        "latency_p95_ms": tail(delays, 0.95),
        "latency_p99_ms": tail(delays, 0.99),
        "latency_max_ms": delays[-1],
    }


def counters_of(cell: Cell, role: str, window: str) -> Json:
    return part_of(part_of(part_of(cell.counters, role, {}), "windows", {}), window, {})


def duration_s_of(report: Json) -> float | None:
    """How long the drone's gate was open."""
    gate = part_of(report, "drone", {})
    opened, closed = exact_or_none(gate, "open_ns"), exact_or_none(gate, "close_ns")
    return (closed - opened) / 1e9 if opened and closed and closed > opened else None
