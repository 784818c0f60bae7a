"""Categories D and E: handshakes and the primitives inside them, from spans alone; cold and pooled apart.

A handshake counts where the drone has its whole-wall row (step `handshake`). Nothing is a subtraction: walls
and primitives are spans of their own, and coverage is their sum over the wall.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pqbase.stats import tail
from pqevidence.record.raw import PRIMITIVES, ROLES, Span
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, median

COVERAGE_PCT = (95.0, 101.0)
WALL_STEP = "handshake"
#: what is sent, and the step that makes it and notes its size
SIZED_STEPS = {"kem_public_key": "keygen", "kem_ciphertext": "encaps", "sig": "sign"}
#: the end at which a primitive of the suite runs; the other end signs and checks only with drone signatures
PRIMITIVE_HOST = {"keygen": "gcs", "sign": "gcs", "verify": "drone", "encaps": "drone", "decaps": "gcs"}
COLD, POOLED = "cold", "pooled"
NO_HANDSHAKE = "suite plain makes no handshake"
NOT_POOLED = "the scenario asks for no pooled handshakes"


@dataclass
class HandshakeTrace:
    """Spans of one handshake id, by host."""

    walls: dict[str, Span] = field(default_factory=dict)
    steps: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def sum_ns(self, host: str) -> int:
        """Σ of the host's steps, the wall row apart."""
        return sum(span.duration_ns for span in self.steps[host])

    def coverage_pct(self, host: str) -> float | None:
        """Σ steps over the wall; None where the host has no wall or an empty one."""
        wall = self.walls.get(host)
        return 100 * self.sum_ns(host) / wall.duration_ns if wall and wall.duration_ns > 0 else None

    def primitive_ns(self, name: str, host: str | None = None) -> int | None:
        """Duration of one primitive on one host, by default the one that always runs it; None where it is
        not in the trace."""
        where = PRIMITIVE_HOST[name] if host is None else host
        found = [s.duration_ns for s in self.steps[where] if s.step == name and s.kind == "crypto"]
        return sum(found) if found else None

    def size_bytes(self, name: str) -> int | None:
        """Size of what a primitive made, on the host that always runs it; None where no span carries it."""
        return next((s.size_bytes for s in self.steps[PRIMITIVE_HOST[name]] if s.step == name), None)

    def crypto_ns(self, host: str | None = None) -> int:
        """Σ crypto spans of one host or of both."""
        hosts = ROLES if host is None else (host,)
        return sum(s.duration_ns for h in hosts for s in self.steps[h] if s.kind == "crypto")


def traces(spans: Iterable[Span], mode: str = COLD) -> dict[str, HandshakeTrace]:
    """Handshakes of one mode that the drone completed, by id, in the order they began."""
    found: dict[str, HandshakeTrace] = defaultdict(HandshakeTrace)
    for span in spans:
        if span.mode != mode:
            continue
        if span.step == WALL_STEP:
            found[span.handshake_id].walls[span.host] = span
        else:
            found[span.handshake_id].steps[span.host].append(span)
    done = [(key, trace) for key, trace in found.items() if "drone" in trace.walls]
    return dict(sorted(done, key=lambda item: item[1].walls["drone"].start_ns))


def worst_coverage_pct(cold: dict[str, HandshakeTrace], host: str) -> float | None:
    """The coverage farthest from 100 % among all handshakes of a host."""
    values = [value for trace in cold.values() if (value := trace.coverage_pct(host)) is not None]
    return max(values, key=lambda value: abs(value - 100)) if values else None


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


def both_pooled(pooled: dict[str, HandshakeTrace]) -> dict[str, HandshakeTrace]:
    """Of the handshakes the drone calls pooled, those in which the ground did take a ready key pair."""
    return {
        key: trace
        for key, trace in pooled.items()
        if "gcs" in trace.walls and trace.walls["gcs"].keygen == POOLED
    }


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
