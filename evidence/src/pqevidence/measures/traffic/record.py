"""Categories G and H: what the data plane carried, and how late it came."""

from __future__ import annotations

from pqbase.stats import tail
from pqevidence.record.dataplane import BULK_PREFIX, TRAFFIC, DataPlane
from pqevidence.record.facts import Facts
from pqevidence.record.ledger import Join, Joined
from pqevidence.record.raw import ROLES, Json, stamps_of_one_clock
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, jitter, mean, median

NO_LEDGER = "no ledger of both ends"
REFUSALS = ("bad_header", "unknown_index", "auth_failed", "replay", "old_epoch")


def fill(sheet: Sheet, facts: Facts) -> None:
    """All of it."""
    fill_data_plane(sheet, facts.plane, facts.cell.counters)
    fill_latency(sheet, facts.plane, stamps_of_one_clock(facts.context, facts.cell))


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
    _fill_session(sheet, plane)
    _fill_bulk(sheet, plane)
    _fill_packets(sheet, plane)
    _fill_counters(sheet, counters)


def _fill_session(sheet: Sheet, plane: DataPlane) -> None:
    """Rates of the traffic window."""
    absent = NO_LEDGER if plane.down is None else "no traffic window"
    seconds = plane.gate_s.get(TRAFFIC)
    main, back = _of_session(plane.down), _of_session(plane.up)
    for name, value, joined in (
        ("goodput_down_mbps", _mbps(plane.plain_bytes(main), seconds) if main else None, main),
        ("goodput_up_mbps", _mbps(plane.plain_bytes(back), seconds) if back else None, back),
        ("wire_rate_down_mbps", _mbps(main.sealed_bytes, seconds) if main else None, main),
        ("achieved_rate_hz", main.sent / seconds if main and seconds else None, main),
    ):
        sheet.put("G", name, value, n=joined.sent if joined else None, absent=absent)


def _of_session(way: Join | None) -> Joined | None:
    return (way.windows.get(TRAFFIC) or Joined()) if way else None


def _fill_bulk(sheet: Sheet, plane: DataPlane) -> None:
    """The best rung of the ladder."""
    best = best_bulk(plane)
    if best is None:
        absent = NO_LEDGER if plane.down is None else "no bulk window"
        for name in ("bulk_goodput_mbps", "bulk_offered_pps", "bulk_loss_ratio"):
            sheet.put("G", name, None, absent=absent)
        return
    window, joined = best
    seconds, n = plane.gate_s[window], joined.sent
    none = "no bulk window"
    sheet.put("G", "bulk_goodput_mbps", _mbps(plane.plain_bytes(joined), seconds), n=n, absent=none)
    sheet.put("G", "bulk_offered_pps", joined.sent / seconds if seconds else None, n=n, absent=none)
    sheet.put("G", "bulk_loss_ratio", _ratio(joined.lost, joined.sent), n=n, absent=none)


def _fill_packets(sheet: Sheet, plane: DataPlane) -> None:
    """Datagrams of the whole cell, by the ledgers."""
    down, up = plane.down, plane.up
    for suffix, joined in (("", down), ("_up", up)):
        sent = joined.total("sent") if joined else None
        lost = joined.total("lost") if joined else None
        got = sent - lost if sent is not None and lost is not None else None
        sheet.put("G", f"packets_sent{suffix}_count", sent, absent=NO_LEDGER)
        sheet.put("G", f"packets_received{suffix}_count", got, absent=NO_LEDGER)
        loss = _ratio(lost, sent) if sent and lost is not None else None
        none = NO_LEDGER if joined is None else "none sent"
        sheet.put("G", f"packet_loss{suffix}_ratio", loss, n=sent, absent=none)
        if not suffix:
            delivery = None if loss is None else 1 - loss
            sheet.put("G", "packet_delivery_ratio", delivery, n=sent, absent=NO_LEDGER)
    sheet.put("G", "reordered_count", down.total("reordered") if down else None, absent=NO_LEDGER)
    both = down.duplicates + up.duplicates if down and up else None
    sheet.put("G", "duplicate_count", both, absent=NO_LEDGER)


def _fill_counters(sheet: Sheet, counters: dict[str, Json] | None) -> None:
    none = "the counters of both ends are not there"
    have = counters if counters is not None and all(role in counters for role in ROLES) else None

    def both(*names: str) -> int | None:
        return None if have is None else sum(int(have[role][name]) for role in ROLES for name in names)

    def one(role: str, name: str) -> int | None:
        return None if have is None else int(have[role][name])

    # Ends that count no second copies apart count them among their replays.
    counted = have is not None and all("duplicate" in have[role] for role in ROLES)
    sheet.put("G", "packets_dropped_count", both(*REFUSALS, *(["duplicate"] if counted else [])), absent=none)
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
    reason = _why_no_latency(plane, main, one_clock)
    values = [] if reason or main is None else main.latencies_ms
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
    up = back.latencies_ms if back else []
    sheet.put("H", "one_way_latency_up_p50_ms", median(up), n=len(up), absent=reason or "nothing went up")
    sheet.put("H", "transit_p50_ms", median([t / 1e6 for t in transit]), n=n, absent=absent)
    estimates = sorted([value / 1e6 for value in jitter(transit)])
    sheet.put("H", "jitter_mean_ms", mean(estimates), n=len(estimates), absent=absent)
    why = few(estimates, 0.95, absent)
    sheet.put("H", "jitter_p95_ms", tail(estimates, 0.95), n=len(estimates), absent=why)
    sheet.put("H", "latency_sample_count", n)
    sheet.put("H", "latency_invalid_reason", reason, absent="the latency is valid")
    sheet.put("H", "one_way_latency_valid", reason is None)
    _fill_round_trip(sheet, plane.rtt_ms)


def _why_no_latency(plane: DataPlane, main: Joined | None, one_clock: bool) -> str | None:
    if plane.down is None:
        return NO_LEDGER
    if main is None or not main.latency_ns:
        return "no datagram of a traffic window arrived"
    return None if one_clock else "the hosts have different clocks and their offset was not measured"


def _fill_round_trip(sheet: Sheet, rtt: list[float]) -> None:
    no_rtt = None if rtt else "no TIMESYNC answer reached the ground's client"
    sheet.put("H", "rtt_mean_ms", mean(rtt), n=len(rtt), absent=no_rtt or "")
    sheet.put("H", "rtt_p50_ms", median(rtt), n=len(rtt), absent=no_rtt or "")
    sheet.put("H", "rtt_p95_ms", tail(rtt, 0.95), n=len(rtt), absent=few(rtt, 0.95, no_rtt or ""))
    sheet.put("H", "rtt_sample_count", len(rtt))
    sheet.put("H", "rtt_invalid_reason", no_rtt, absent="the round trip is valid")
    sheet.put("H", "rtt_valid", bool(rtt))
