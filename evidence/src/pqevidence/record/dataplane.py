"""Categories G and H: what the tunnel carried, from both ledgers and both ends' counters.

Loss, reorder, duplicates and delay come from the join on (epoch, sequence), never from one end's word.
Latency needs one clock: on hosts with different boot ids it stays null with that reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pqbase.stats import tail
from pqevidence.record.ledger import Column, Join, Joined, join
from pqevidence.record.raw import ROLES, Json, RawCell
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, jitter, mean, median
from pqtunnel.packet import HEADER_BYTES
from pqtunnel.suites import Suite

TRAFFIC = "traffic"
BULK_PREFIX = "bulk-"
REFUSALS = ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch")
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


def _mbps(size_bytes: int | None, seconds: float | None) -> float | None:
    return size_bytes * 8 / seconds / 1e6 if seconds and size_bytes is not None else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def best_bulk(plane: DataPlane) -> tuple[str, Joined] | None:
    """The bulk window that delivered most a second; all its windows have one datagram size."""
    if plane.down is None:
        return None
    rows = [
        (joined.delivered_bytes / plane.gate_s[name], name, joined)
        for name, joined in plane.down.windows.items()
        if name.startswith(BULK_PREFIX) and name in plane.gate_s
    ]
    if not rows:
        return None
    _, name, joined = max(rows, key=lambda row: row[0])
    return name, joined


def fill_data_plane(sheet: Sheet, plane: DataPlane, counters: dict[str, Json] | None) -> None:
    """Category G."""
    no_ledger = "no ledger of both ends"
    down, up = plane.down, plane.up
    seconds = plane.gate_s.get(TRAFFIC)
    main = (down.windows.get(TRAFFIC) or Joined()) if down else None
    back = (up.windows.get(TRAFFIC) or Joined()) if up else None
    no_window = no_ledger if down is None else "no traffic window"
    n = main.sent if main else None
    goodput = _mbps(plane.plain_bytes(main), seconds) if main else None
    sheet.put("G", "goodput_down_mbps", goodput, n=n, absent=no_window)
    sheet.put(
        "G",
        "goodput_up_mbps",
        _mbps(plane.plain_bytes(back), seconds) if back else None,
        n=back.sent if back else None,
        absent=no_window,
    )
    wire = _mbps(main.sealed_bytes, seconds) if main else None
    sheet.put("G", "wire_rate_down_mbps", wire, n=n, absent=no_window)
    rate = main.sent / seconds if main and seconds else None
    sheet.put("G", "achieved_rate_hz", rate, n=n, absent=no_window)
    bulk = best_bulk(plane)
    no_bulk = no_ledger if down is None else "no bulk window"
    bulk_s = plane.gate_s[bulk[0]] if bulk else None
    bulk_n = bulk[1].sent if bulk else None
    sheet.put(
        "G",
        "bulk_goodput_mbps",
        _mbps(plane.plain_bytes(bulk[1]), bulk_s) if bulk else None,
        n=bulk_n,
        absent=no_bulk,
    )
    offered = bulk[1].sent / bulk_s if bulk and bulk_s else None
    sheet.put("G", "bulk_offered_pps", offered, n=bulk_n, absent=no_bulk)
    sheet.put(
        "G", "bulk_loss_ratio", _ratio(bulk[1].lost, bulk[1].sent) if bulk else None, n=bulk_n, absent=no_bulk
    )

    for suffix, joined in (("", down), ("_up", up)):
        sent = joined.total("sent") if joined else None
        lost = joined.total("lost") if joined else None
        got = sent - lost if sent is not None and lost is not None else None
        sheet.put("G", f"packets_sent{suffix}_count", sent, absent=no_ledger)
        sheet.put("G", f"packets_received{suffix}_count", got, absent=no_ledger)
        loss = _ratio(lost, sent) if sent and lost is not None else None
        sheet.put(
            "G",
            f"packet_loss{suffix}_ratio",
            loss,
            n=sent,
            absent=no_ledger if joined is None else "none sent",
        )
        if not suffix:
            delivery = None if loss is None else 1 - loss
            sheet.put("G", "packet_delivery_ratio", delivery, n=sent, absent=no_ledger)
    sheet.put("G", "reordered_count", down.total("reordered") if down else None, absent=no_ledger)
    both = down.duplicates + up.duplicates if down and up else None
    sheet.put("G", "duplicate_count", both, absent=no_ledger)
    _fill_counters(sheet, counters)


def _fill_counters(sheet: Sheet, counters: dict[str, Json] | None) -> None:
    none = "the counters of both ends are not there"
    have = counters if counters is not None and all(role in counters for role in ROLES) else None

    def both(*names: str) -> int | None:
        return None if have is None else sum(int(have[role][name]) for role in ROLES for name in names)

    def one(role: str, name: str) -> int | None:
        return None if have is None else int(have[role][name])

    sheet.put("G", "packets_dropped_count", both(*REFUSALS), absent=none)
    sheet.put("G", "replay_drop_count", both("replay"), absent=none)
    sheet.put("G", "auth_failed_count", both("auth_failed"), absent=none)
    sheet.put("G", "bad_header_count", both("bad_header", "unknown_index"), absent=none)
    sheet.put(
        "G",
        "decode_failure_count",
        both("bad_header", "unknown_index", "auth_failed", "old_epoch"),
        absent=none,
    )
    sheet.put("G", "plaintext_in_count", one("drone", "plaintext_in"), absent=none)
    sheet.put("G", "plaintext_in_bytes", one("drone", "plaintext_in_bytes"), absent=none)
    sheet.put("G", "plaintext_out_count", one("gcs", "plaintext_out"), absent=none)
    sheet.put("G", "plaintext_out_bytes", one("gcs", "plaintext_out_bytes"), absent=none)
    overhead: float | None = None
    if have is not None:
        # At the receiver, where what was opened is exactly what was handed over.
        sealed = sum(int(have[role]["rx_ok_bytes"]) for role in ROLES)
        plain = sum(int(have[role]["plaintext_out_bytes"]) for role in ROLES)
        overhead = _ratio(sealed - plain, sum(int(have[role]["rx_ok"]) for role in ROLES))
    sheet.put("G", "size_overhead_bytes", overhead, absent=none if have is None else "nothing was opened")
    for role, kind in (("drone", "seal"), ("gcs", "open")):
        count = one(role, f"{kind}_count")
        total = one(role, f"{kind}_ns_total")
        average = total / count if total is not None and count else None
        sheet.put(
            "G", f"aead_{kind}_mean_ns", average, n=count, absent=none if have is None else "no such call"
        )
        sheet.put("G", f"aead_{kind}_count", count, absent=none)


def fill_latency(sheet: Sheet, plane: DataPlane, one_clock: bool) -> None:
    """Category H."""
    main = plane.down.windows.get(TRAFFIC) if plane.down else None
    reason: str | None = None
    if plane.down is None:
        reason = "no ledger of both ends"
    elif main is None or not main.latency_ns:
        reason = "no datagram of a traffic window arrived"
    elif not one_clock:
        reason = "the hosts have different clocks and their offset was not measured"
    values = [] if reason or main is None else [ns / 1e6 for ns in main.latency_ns]
    transit = [] if reason or main is None else list(main.transit_ns)
    absent = reason or "no sample"
    n = len(values)
    for name, value, why in (
        ("one_way_latency_mean_ms", mean(values), absent),
        ("one_way_latency_p50_ms", median(values), absent),
        ("one_way_latency_p95_ms", tail(values, 0.95), few(values, 0.95, absent)),
        ("one_way_latency_p99_ms", tail(values, 0.99), few(values, 0.99, absent)),
        ("one_way_latency_max_ms", max(values, default=None), absent),
    ):
        sheet.put("H", name, value, n=n, absent=why)
    back = plane.up.windows.get(TRAFFIC) if plane.up and reason is None else None
    up = [ns / 1e6 for ns in back.latency_ns] if back else []
    sheet.put("H", "one_way_latency_up_p50_ms", median(up), n=len(up), absent=reason or "nothing went up")
    sheet.put("H", "transit_p50_ms", median([t / 1e6 for t in transit]), n=n, absent=absent)
    estimates = [value / 1e6 for value in jitter(transit)]
    sheet.put("H", "jitter_mean_ms", mean(estimates), n=len(estimates), absent=absent)
    why = few(estimates, 0.95, absent)
    sheet.put("H", "jitter_p95_ms", tail(estimates, 0.95), n=len(estimates), absent=why)
    sheet.put("H", "latency_sample_count", n)
    sheet.put("H", "latency_invalid_reason", reason, absent="the latency is valid")
    sheet.put("H", "one_way_latency_valid", reason is None)
    rtt = plane.rtt_ms
    no_rtt = None if rtt else "no TIMESYNC answer reached the ground's client"
    sheet.put("H", "rtt_mean_ms", mean(rtt), n=len(rtt), absent=no_rtt or "")
    sheet.put("H", "rtt_p50_ms", median(rtt), n=len(rtt), absent=no_rtt or "")
    sheet.put("H", "rtt_p95_ms", tail(rtt, 0.95), n=len(rtt), absent=few(rtt, 0.95, no_rtt or ""))
    sheet.put("H", "rtt_sample_count", len(rtt))
    sheet.put("H", "rtt_invalid_reason", no_rtt, absent="the round trip is valid")
    sheet.put("H", "rtt_valid", bool(rtt))


def window_counter(counters: dict[str, Json] | None, role: str, window: str, name: str) -> Any:
    """One counter of one window at one end; None where it is not there."""
    return ((counters or {}).get(role, {}).get("windows", {}).get(window) or {}).get(name)
