"""Handshakes of a cell and the primitives inside them, from spans alone; cold and pooled apart.

A handshake counts where the drone has its whole-wall row (step `handshake`). Nothing is a subtraction: walls
and primitives are spans of their own, and coverage is their sum over the wall.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from pqevidence.record.raw import REDIAL, ROLES, Json, RawCell, Span

COVERAGE_PCT = (95.0, 101.0)
WALL_STEP = "handshake"
#: what is sent, and the step that makes it and notes its size
SIZED_STEPS = {"kem_public_key": "keygen", "kem_ciphertext": "encaps", "sig": "sign"}
#: the end at which a primitive of the suite runs; the other end signs and checks only with drone signatures
PRIMITIVE_HOST = {"keygen": "gcs", "sign": "gcs", "verify": "drone", "encaps": "drone", "decaps": "gcs"}
COLD, POOLED = "cold", "pooled"
HANDSHAKE_WINDOW, POOLED_WINDOW = "handshake_cold", "handshake_pooled"
NO_HANDSHAKE = "suite plain makes no handshake"


@dataclass
class HandshakeTrace:
    """Spans of one handshake id, by host."""

    walls: dict[str, Span] = field(default_factory=dict)
    steps: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def sum_ns(self, host: str) -> int:
        """Σ of the host's steps, the wall row apart."""
        return sum([span.end_ns - span.start_ns for span in self.steps[host]])

    def coverage_pct(self, host: str) -> float | None:
        """Σ steps over the wall; None where the host has no wall or an empty one."""
        wall = self.walls.get(host)
        return 100 * self.sum_ns(host) / wall.duration_ns if wall and wall.duration_ns > 0 else None

    def primitive_ns(self, name: str, host: str | None = None) -> int | None:
        """Duration of one primitive on one host, by default the one that always runs it; None where it is
        not in the trace."""
        where = PRIMITIVE_HOST[name] if host is None else host
        found = [s.end_ns - s.start_ns for s in self.steps[where] if s.step == name and s.kind == "crypto"]
        return sum(found) if found else None

    def size_bytes(self, name: str) -> int | None:
        """Size of what a primitive made, on the host that always runs it; None where no span carries it."""
        return next((s.size_bytes for s in self.steps[PRIMITIVE_HOST[name]] if s.step == name), None)

    def crypto_ns(self, host: str | None = None) -> int:
        """Σ crypto spans of one host or of both."""
        hosts = ROLES if host is None else (host,)
        return sum([s.end_ns - s.start_ns for h in hosts for s in self.steps[h] if s.kind == "crypto"])


def traces(spans: Iterable[Span], mode: str = COLD) -> dict[str, HandshakeTrace]:
    """Handshakes of one mode that the drone completed, by id, in the order they began."""
    found: dict[str, HandshakeTrace] = defaultdict(HandshakeTrace)
    of_mode = [span for span in spans if span.mode == mode]
    for (handshake_id, host), rows in groupby(of_mode, attrgetter("handshake_id", "host")):
        trace = found[handshake_id]
        for span in rows:
            if span.step == WALL_STEP:
                trace.walls[host] = span
            else:
                trace.steps[host].append(span)
    done = [(key, trace) for key, trace in found.items() if "drone" in trace.walls]
    return dict(sorted(done, key=lambda item: item[1].walls["drone"].start_ns))


def worst_coverage_pct(cold: dict[str, HandshakeTrace], host: str) -> float | None:
    """The coverage farthest from 100 % among all handshakes of a host."""
    values = [value for trace in cold.values() if (value := trace.coverage_pct(host)) is not None]
    return max(values, key=lambda value: abs(value - 100)) if values else None


@dataclass(frozen=True)
class Shakes:
    """The handshakes of a cell.

    due: False for suite `plain`, which makes none. pooled_due: as many as the scenario asks for, None where
    it asks for none. least: cold ones that a result needs. completed: cold ones by the drone's counters,
    failed: of any kind; None without counters.
    """

    due: bool
    cold: dict[str, HandshakeTrace]
    pooled: dict[str, HandshakeTrace]
    pooled_due: int | None
    least: int
    redialled_count: int
    completed: int | None
    failed: int | None


def shakes_of(cell: RawCell, scenario: Json, *, due: bool) -> Shakes:
    """What spans, counters and scenario say of the handshakes of a cell."""
    asked = scenario.get("handshake") or {}
    pool = asked.get("pooled")
    spans = cell.spans or []
    pooled, redialled = traces(spans, POOLED), traces(spans, REDIAL)
    completed, failed = _counted(cell, len(pooled) + len(redialled))
    return Shakes(
        due,
        traces(spans),
        pooled,
        int(pool["count"]) if due and pool is not None else None,
        int(asked.get("min_count", 5)),
        len(redialled),
        completed,
        failed,
    )


def _counted(cell: RawCell, others: int) -> tuple[int | None, int | None]:
    """(completed cold ones, failed ones of any kind); others: completed pooled ones and redials."""
    drone = (cell.counters or {}).get("drone")
    if drone is None:
        return None, None
    # Rekeys are handshakes too and stand in category F.
    started = int(drone["hs_started"]) - int(drone.get("rekey_started", 0))
    completed = int(drone["hs_completed"]) - int(drone.get("rekey_completed", 0))
    return completed - others, max(0, started - completed)


def both_pooled(pooled: dict[str, HandshakeTrace]) -> dict[str, HandshakeTrace]:
    """Of the handshakes the drone calls pooled, those in which the ground did take a ready key pair."""
    return {
        key: trace
        for key, trace in pooled.items()
        if "gcs" in trace.walls and trace.walls["gcs"].keygen == POOLED
    }
