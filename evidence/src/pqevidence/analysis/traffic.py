"""Traffic, latency and throughput tables from counters, traffic reports and the two-sided ledger.

Loss and delay join on (direction, epoch, sequence): a datagram of the sender's ledger without a partner in
the receiver's is lost. Delay = plaintext in the sender's kernel to plaintext handed on by the receiver, both
on one realtime clock; where the ends do not share a clock there is no delay, and the record says why.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pqbase.stats import quantile7, tail
from pqevidence.analysis.handshakes import CELL_COLUMNS, cell_columns
from pqevidence.analysis.latency import LatencyShares
from pqevidence.analysis.load import BundleData, Cell, Json, unreadable
from pqevidence.analysis.table import Table, Value

TRAFFIC = "traffic"
BULK_PREFIX = "bulk-"
#: A rung of the offered-rate ladder holds when at most this share is lost …
KNEE_LOSS_PCT = 0.1
#: … and at least this share of the offered rate was taken in by the tunnel.
KNEE_OFFERED_PCT = 98.0
DIRECTIONS = {"down": ("drone", "gcs"), "up": ("gcs", "drone")}


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
    table = Table(
        "traffic",
        (
            *CELL_COLUMNS,
            "window",
            "route",
            "direction",
            "source",
            "profile",
            "nominal_rate_hz",
            "duration_s",
            "sent_count",
            "received_count",
            "lost_count",
            "loss_pct",
            "achieved_rate_hz",
            "rate_deviation_pct",
            "digest_sent",
            "digest_received",
            "digest_equal",
            "latency_n",
            "latency_p50_ms",
            "latency_p95_ms",
            "latency_p99_ms",
            "latency_max_ms",
            "latency_reason",
        ),
    )
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
    out = _counters(cell, source, window)
    into = _counters(cell, sink, window)
    if not out or not into:
        return None
    report = cell.traffic_windows[window]
    spec: Json = report.get("spec") or {}
    duration_s = _duration_s(report)
    sent, received = int(out["tx_data"]), int(into["rx_ok"])
    if sent == 0 and received == 0 and window.startswith(BULK_PREFIX):
        return None  # the ladder loads one direction; an idle other one is no finding
    nominal = float(spec["rate_hz"]) if direction == "down" and spec.get("rate_hz") else None
    achieved = sent / duration_s if duration_s else None
    return {
        "window": window,
        "route": report.get("route"),
        "direction": direction,
        "source": (report.get(source) or {}).get("source"),
        "profile": spec.get("profile") if direction == "down" else None,
        "nominal_rate_hz": nominal,
        "duration_s": duration_s,
        "sent_count": sent,
        "received_count": received,
        "lost_count": sent - received,
        "loss_pct": 100.0 * (sent - received) / sent if sent else None,
        "achieved_rate_hz": achieved,
        "rate_deviation_pct": 100.0 * (achieved / nominal - 1.0) if nominal and achieved else None,
        "digest_sent": out.get("digest_tx"),
        "digest_received": into.get("digest_rx"),
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


def throughput_table(bundle: BundleData) -> Table:
    """One row a cell and rung of the offered-rate ladder; ``knee`` marks the last rung that holds."""
    table = Table(
        "throughput",
        (
            *CELL_COLUMNS,
            "window",
            "size_bytes",
            "duration_s",
            "offered_pps",
            "source_pps",
            "taken_pps",
            "offered_mbps",
            "goodput_mbps",
            "sent_count",
            "received_count",
            "corrupt_count",
            "duplicate_count",
            "loss_pct",
            "holds",
            "knee",
        ),
    )
    for cell in bundle.cells:
        rungs = [_rung(cell, name) for name in cell.traffic_windows if name.startswith(BULK_PREFIX)]
        rows = sorted((r for r in rungs if r is not None), key=lambda r: float(r["offered_pps"] or 0))
        for row, knee in zip(rows, _knees([bool(r["holds"]) for r in rows]), strict=True):
            table.add(**cell_columns(cell), **row, knee=knee)
    return table


def _knees(holds: list[bool]) -> list[str]:
    """Per rung: ``knee`` on the last rung before the first that breaks, ``top`` if none broke, else empty."""
    marks = [""] * len(holds)
    broken = next((i for i, ok in enumerate(holds) if not ok), None)
    if holds and broken is None:
        marks[-1] = "not reached"
    elif broken:
        marks[broken - 1] = "knee"
    return marks


def _rung(cell: Cell, window: str) -> dict[str, Value] | None:
    report = cell.traffic_windows[window]
    spec: Json = report.get("spec") or {}
    out, into = _counters(cell, "drone", window), _counters(cell, "gcs", window)
    duration_s = _duration_s(report)
    if not out or not into or not duration_s:
        return None
    sink: Json = ((report.get("gcs") or {}).get("source_report") or {}).get("received") or {}
    offered_pps = float(spec.get("rate_hz") or window.removeprefix(BULK_PREFIX))
    size_bytes = int(spec["size_bytes"]) if spec.get("size_bytes") else None
    sent, received = int(out["plaintext_in"]), int(into["plaintext_out"])
    loss_pct = 100.0 * (sent - received) / sent if sent else None
    taken = sent / duration_s
    return {
        "window": window,
        "size_bytes": size_bytes,
        "duration_s": duration_s,
        "offered_pps": offered_pps,
        "source_pps": _source_pps((report.get("drone") or {}).get("source_report") or {}),
        "taken_pps": taken,
        "offered_mbps": offered_pps * size_bytes * 8 / 1e6 if size_bytes else None,
        "goodput_mbps": int(into["plaintext_out_bytes"]) * 8 / duration_s / 1e6,
        "sent_count": sent,
        "received_count": received,
        "corrupt_count": sink.get("corrupt"),
        "duplicate_count": sink.get("duplicate"),
        "loss_pct": loss_pct,
        "holds": loss_pct is not None
        and loss_pct <= KNEE_LOSS_PCT
        and taken >= offered_pps * KNEE_OFFERED_PCT / 100.0,
    }


def _source_pps(report: Json) -> float | None:
    """The rate at which the source really sent, from its own first and last datagram."""
    sent = report.get("sent") or {}
    count, first, last = sent.get("count"), sent.get("first_ns"), sent.get("last_ns")
    if not count or count < 2 or not first or not last or last <= first:
        return None
    return float((int(count) - 1) * 1e9 / (int(last) - int(first)))


def _counters(cell: Cell, role: str, window: str) -> Json:
    counters: Json = (cell.counters.get(role) or {}).get("windows", {}).get(window, {})
    return counters


def _duration_s(report: Json) -> float | None:
    """How long the drone's gate was open."""
    gate = report.get("drone") or {}
    opened, closed = gate.get("open_ns"), gate.get("close_ns")
    return (int(closed) - int(opened)) / 1e9 if opened and closed and closed > opened else None
