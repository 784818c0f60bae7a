"""Categories D and E: cold and pooled handshakes, their primitives, what their walls went into."""

from __future__ import annotations

from collections.abc import Callable

from pqbase.stats import tail
from pqevidence.record.facts import Facts
from pqevidence.record.handshake import (
    NO_HANDSHAKE,
    SIZED_STEPS,
    HandshakeTrace,
    both_pooled,
    worst_coverage_pct,
)
from pqevidence.record.raw import PRIMITIVES, ROLES, RawCell
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, median
from pqevidence.record.waiting import parts_of, why_unknown

NOT_POOLED = "the scenario asks for no pooled handshakes"
NOT_SAMPLED = "of fast handshakes the fifth and every twentieth after it are metered inside: none here"


def fill(sheet: Sheet, facts: Facts) -> None:
    """All of it."""
    shakes, suite = facts.shakes, facts.suite
    reasons = _failure_reasons(facts.cell)
    fill_handshake(sheet, shakes.cold, shakes.completed, shakes.failed, reasons, due=shakes.due)
    fill_pooled(sheet, shakes.pooled, shakes.pooled_due is not None)
    secret_bytes = suite.kem.shared_secret_bytes if suite is not None and shakes.due else None
    fill_primitives(sheet, shakes.cold, secret_bytes, due=shakes.due)
    fill_waiting(sheet, shakes.cold, due=shakes.due)


def _failure_reasons(cell: RawCell) -> list[str]:
    reasons = []
    for event in cell.events:
        if event.get("event") == "handshake_failed":
            reasons.append(str(event.get("reason") or "no reason given"))
        for failure in event.get("failures") or []:
            reasons.append(str(failure.get("reason") if isinstance(failure, dict) else failure))
    return reasons


def _ms(values_ns: list[int]) -> list[float]:
    return [value / 1e6 for value in values_ns]


def fill_handshake(
    sheet: Sheet,
    cold: dict[str, HandshakeTrace],
    completed: int | None,
    failed: int | None,
    reasons: list[str],
    *,
    due: bool = True,
) -> None:
    """Category D, cold handshakes. due: False for a suite that makes none."""
    walls = _ms([trace.walls["drone"].duration_ns for trace in cold.values()])
    ground = _ms([trace.walls["gcs"].duration_ns for trace in cold.values() if "gcs" in trace.walls])
    none = "no cold handshake left a span" if due else NO_HANDSHAKE
    n = len(walls)
    sheet.put("D", "handshake_total_duration_ms", median(walls), n=n, absent=none)
    sheet.put("D", "handshake_gcs_duration_ms", median(ground), n=len(ground), absent=none)
    sheet.put("D", "handshake_p95_ms", tail(walls, 0.95), n=n, absent=few(walls, 0.95, none))
    sheet.put("D", "handshake_min_ms", min(walls, default=None), n=n, absent=none)
    sheet.put("D", "handshake_max_ms", max(walls, default=None), n=n, absent=none)
    ratios = [
        trace.walls["drone"].duration_ns / crypto
        for trace in cold.values()
        if (crypto := trace.crypto_ns()) > 0
    ]
    sheet.put("D", "handshake_over_crypto_ratio", median(ratios), n=len(ratios), absent=none)
    for host in ROLES:
        worst = worst_coverage_pct(cold, host)
        sheet.put("D", f"span_coverage_{host}_pct", worst, n=n if worst is not None else None, absent=none)
    starts = [trace.walls["drone"].start_ns for trace in cold.values()]
    ends = [trace.walls["drone"].end_ns for trace in cold.values()]
    sheet.put("D", "handshake_first_start_mono_ns", min(starts, default=None), absent=none)
    sheet.put("D", "handshake_last_end_mono_ns", max(ends, default=None), absent=none)
    unknown = "the drone's counters are not there" if due else NO_HANDSHAKE
    completed, failed = (completed, failed) if due else (None, None)
    sheet.put("D", "handshake_completed_count", completed, absent=unknown)
    sheet.put("D", "handshake_failed_count", failed, absent=unknown)
    text = "; ".join(dict.fromkeys(reasons)) or None
    sheet.put("D", "handshake_failure_reason", text, absent="no handshake failed, or none said why")


def fill_pooled(sheet: Sheet, pooled: dict[str, HandshakeTrace], asked: bool) -> None:
    """Category D, handshakes for which the ground's key pair was ready. They never enter the cold fields."""
    none = "no handshake used a pooled key" if asked else NOT_POOLED
    used = both_pooled(pooled)
    walls = _ms([trace.walls["drone"].duration_ns for trace in used.values()])
    ground = _ms([trace.walls["gcs"].duration_ns for trace in used.values()])
    n = len(walls)
    sheet.put("D", "pooled_handshake_count", n if asked else None, absent=none)
    sheet.put("D", "pooled_handshake_duration_ms", median(walls), n=n, absent=none)
    sheet.put("D", "pooled_handshake_gcs_duration_ms", median(ground), n=n, absent=none)
    p95 = tail(walls, 0.95)
    sheet.put("D", "pooled_handshake_p95_ms", p95, n=n, absent=few(walls, 0.95, none))
    for host in ROLES:
        worst = worst_coverage_pct(used, host)
        sheet.put("D", f"pooled_span_coverage_{host}_pct", worst, n=n, absent=none)


def fill_primitives(
    sheet: Sheet, cold: dict[str, HandshakeTrace], shared_secret_bytes: int | None, *, due: bool = True
) -> None:
    """Category E. Sizes are those that the spans carry; a shared secret leaves no span and has the registry's
    (None for a suite that it does not know, and for `plain`, which has no KEM: due False)."""
    none = "no cold handshake left a span of this primitive" if due else NO_HANDSHAKE
    names = {
        "keygen": "kem_keygen_ms",
        "encaps": "kem_encaps_ms",
        "decaps": "kem_decaps_ms",
        "sign": "sig_sign_ms",
        "verify": "sig_verify_ms",
    }
    for step in PRIMITIVES:
        values = _ms([v for trace in cold.values() if (v := trace.primitive_ns(step)) is not None])
        sheet.put("E", names[step], median(values), n=len(values), absent=none)
    for step, host, field_name in (
        ("sign", "drone", "drone_sign_ms"),
        ("verify", "gcs", "drone_sig_verify_ms"),
    ):
        values = _ms([v for trace in cold.values() if (v := trace.primitive_ns(step, host)) is not None])
        silent = "the drone did not sign" if due else NO_HANDSHAKE
        sheet.put("E", field_name, median(values), n=len(values), absent=silent)

    def sums(pick: Callable[[HandshakeTrace], int]) -> list[float]:
        return _ms([value for trace in cold.values() if (value := pick(trace)) > 0])

    for field_name, values in (
        ("crypto_drone_ms", sums(lambda trace: trace.crypto_ns("drone"))),
        ("crypto_gcs_ms", sums(lambda trace: trace.crypto_ns("gcs"))),
        ("crypto_critical_path_ms", sums(lambda trace: trace.crypto_ns())),
    ):
        sheet.put("E", field_name, median(values), n=len(values), absent=none)
    for name, step in SIZED_STEPS.items():
        made = [size for trace in cold.values() if (size := trace.size_bytes(step)) is not None]
        sheet.put("E", f"{name}_size_bytes", max(made, default=None), n=len(made), absent=none)
    unknown = "the suite registry does not know this suite" if due else NO_HANDSHAKE
    sheet.put("E", "shared_secret_size_bytes", shared_secret_bytes, absent=unknown)


def fill_waiting(sheet: Sheet, cold: dict[str, HandshakeTrace], *, due: bool = True) -> None:
    """Categories D and E, cold handshakes. due: False for a suite that makes none."""
    for host in ROLES:
        walls = [trace.walls[host] for trace in cold.values() if host in trace.walls]
        known = [parts for wall in walls if (parts := parts_of(wall)) is not None]
        silent = why_unknown(walls) if walls else "no cold handshake left a span"
        none = silent if due else NO_HANDSHAKE
        n = len(known)
        for name, values in (
            ("handshake_processor", [parts.work_ns / 1e6 for parts in known]),
            ("handshake_peer_wait", [parts.peer_ns / 1e6 for parts in known]),
            ("handshake_processor_wait", [parts.queue_ns / 1e6 for parts in known]),
        ):
            sheet.put("D", f"{name}_{host}_ms", median(values), n=n, absent=none)
        switches = sum(parts.involuntary for parts in known) if known else None
        sheet.put("D", f"handshake_involuntary_{host}_count", switches, n=n, absent=none)
        works = [work for trace in cold.values() if (work := _primitives_ns(trace, host)) is not None]
        unmetered = NOT_SAMPLED if known and due else none
        spent_ms = median([ns / 1e6 for ns in works])
        sheet.put("E", f"crypto_processor_{host}_ms", spent_ms, n=len(works), absent=unmetered)


def _primitives_ns(trace: HandshakeTrace, host: str) -> int | None:
    """Processor time of a host's primitives in one handshake; None where one of them has none."""
    told = [span.cpu_ns for span in trace.steps[host] if span.kind == "crypto"]
    known = [cpu_ns for cpu_ns in told if cpu_ns is not None]
    return sum(known) if known and len(known) == len(told) else None
