"""Handshake and primitive tables, recomputed from the raw spans of both hosts.

A handshake counts when both ends wrote their whole wall (step ``handshake``): drone wall = connect to a
verified FinishedGcs, GCS wall = accept to FinishedGcs sent. No figure is a difference of two others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from pqbase.documents import whole_of
from pqbase.stats import quantile7, tail
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.load import BundleData, Cell, Span, algorithm_order
from pqevidence.analysis.stats import mean, median
from pqevidence.analysis.table import Table
from pqevidence.record.raw import Span as RawSpan
from pqevidence.record.waiting import Parts, parts_of

WALL_STEP = "handshake"
#: of the record: where it does not count, nothing made of whole walls does
WALL_FIELD = "handshake_total_duration_ms"
AnySpan = TypeVar("AnySpan", Span, RawSpan)
#: rows of one host in one handshake mostly stand together
_PLACE = attrgetter("mode", "handshake_id", "host")
#: what the tables speak of; rekeys have tables of their own
MODES = ("cold", "pooled")
#: step name → (which algorithm of the suite, operation)
PRIMITIVES = {
    "keygen": "kem",
    "encaps": "kem",
    "decaps": "kem",
    "sign": "sig",
    "verify": "sig",
}
CELL_COLUMNS = names(CELL)


def _waiting_of(role: str, end: str) -> tuple[Column, ...]:
    """What each wall of one end went into."""
    return (
        Column(f"{role}_processor_median_ms", "processor time of the thread", f"{end}: work", "ms", True),
        Column(f"{role}_peer_wait_median_ms", "it slept: network, other end", "for the peer", "ms", True),
        Column(
            f"{role}_processor_wait_median_ms",
            "it could have run and had none",
            "for a processor",
            "ms",
            True,
        ),
        Column(f"{role}_processor_wait_max_ms", "the same: the longest", "at most", "ms", True),
        Column(f"{role}_involuntary_count", "times it was taken off, over all", "preempted", "", True),
    )


#: medians are over the cold handshakes of a cell
COLUMNS = (
    *CELL,
    Column("n", "cold handshakes that both ends wrote whole", "n", "", True),
    Column("drone_wall_median_ms", "drone, connect to verified Finished", "wall drone, median", "ms", True),
    Column("drone_wall_p95_ms", "the same: 95th percentile, from 20 on", "p95", "ms", True),
    Column("drone_wall_min_ms", "the same: the shortest", "min", "ms", True),
    Column("drone_wall_max_ms", "the same: the longest", "max", "ms", True),
    Column("gcs_wall_median_ms", "ground, accept to Finished sent", "wall GCS, median", "ms", True),
    Column("gcs_wall_p95_ms", "the same: 95th percentile, from 20 on"),
    Column("gcs_wall_min_ms", "the same: the shortest"),
    Column("gcs_wall_max_ms", "the same: the longest"),
    Column("crypto_sum_median_ms", "the primitives of one handshake at both ends", "crypto sum", "ms", True),
    Column("wall_over_crypto_ratio", "drone's wall over that sum", "wall / crypto", "", True),
    Column("coverage_drone_min_pct", "least share of a wall that spans cover", "span cover drone", "%", True),
    Column("coverage_gcs_min_pct", "the same at the ground", "span cover GCS", "%", True),
    *_waiting_of("drone", "drone"),
    *_waiting_of("gcs", "GCS"),
    Column("reason", "why there is no number"),
)
PRIMITIVE_COLUMNS = (
    Column("algorithm", "KEM or signature", "algorithm"),
    Column("kind", "kem or sig"),
    Column("level", "NIST level of the suites it is in", "level", "", True),
    Column("operation", "step of the handshake", "operation"),
    Column("host", "end that carried it out", "host"),
    Column("condition", "condition", "condition"),
    Column("ring", "ring of the cells", "ring"),
    Column("n_cells", "cells that passed", "cells", "n", True),
    Column("n_handshakes", "their handshakes", "handshakes", "n", True),
    Column("median_ms", "median of the cells' medians", "median", "ms", True),
    Column("q1_ms", "lower quartile of the cells' medians", "Q1", "ms", True),
    Column("q3_ms", "upper quartile of the cells' medians", "Q3", "ms", True),
    Column("mean_ms", "mean over all handshakes", "mean", "ms", True),
    Column("min_ms", "shortest of all handshakes", "min", "ms", True),
    Column("max_ms", "longest of all handshakes", "max", "ms", True),
)


@dataclass
class Handshake:
    """One handshake as both ends timed it, in milliseconds; steps_ms by (step, host)."""

    wall_ms: dict[str, float] = field(default_factory=dict)
    spans_ms: dict[str, float] = field(default_factory=dict)
    crypto_ms: float = 0.0
    steps_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    parts: dict[str, Parts] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Both ends wrote their wall."""
        return {"drone", "gcs"} <= set(self.wall_ms)


ByMode = dict[str, list[Handshake]]


def handshakes_of(cell: Cell, mode: str = "cold") -> list[Handshake]:
    """Complete handshakes of one mode of a cell, in the order of their ids' first appearance. Both ends must
    call it so: a pooled one whose pool had run empty is neither."""
    if cell.known.handshakes is None:
        cell.known.handshakes = by_mode(grouped(cell.spans))
    return cell.known.handshakes[mode]


def grouped(spans: Iterable[AnySpan]) -> Iterator[tuple[tuple[str, str, str], list[AnySpan]]]:
    """Rows that stand together and have mode, handshake and host in common, in their order."""
    return ((place, list(rows)) for place, rows in groupby(spans, _PLACE))


def by_mode(groups: Iterable[tuple[tuple[str, str, str], Sequence[Span | RawSpan]]]) -> ByMode:
    """Complete handshakes of each of MODES, as handshakes_of gives them, of what `grouped` gives."""
    found: dict[str, dict[str, Handshake]] = {mode: {} for mode in MODES}
    for (mode, handshake_id, host), spans in groups:
        of_mode = found.get(mode)
        if of_mode is not None:
            handshake = of_mode.get(handshake_id)
            if handshake is None:
                handshake = of_mode[handshake_id] = Handshake()
            _add(handshake, host, spans)
    return {mode: [each for each in rows.values() if each.complete] for mode, rows in found.items()}


def _add(handshake: Handshake, host: str, spans: Sequence[Span | RawSpan]) -> None:
    for span in spans:
        duration_ms = (span.end_ns - span.start_ns) / 1e6
        if span.step == WALL_STEP:
            handshake.wall_ms[host] = duration_ms
            if (parts := parts_of(span)) is not None:
                handshake.parts[host] = parts
            continue
        handshake.spans_ms[host] = handshake.spans_ms.get(host, 0.0) + duration_ms
        if span.kind == "crypto":
            handshake.crypto_ms += duration_ms
            place = span.step, host
            handshake.steps_ms[place] = handshake.steps_ms.get(place, 0.0) + duration_ms


def cell_columns(cell: Cell) -> dict[str, str | int | None]:
    """The identifying columns every per-cell table starts with."""
    facts = cell.facts
    return {
        "cell_id": cell.cell_id,
        "suite_id": cell.suite_id,
        "kem": facts.kem if facts else None,
        "sig": facts.sig if facts else None,
        "aead": facts.aead if facts else None,
        "level": facts.level if facts else None,
        "kem_family": facts.kem_family if facts else None,
        "sig_family": facts.sig_family if facts else None,
        "condition": cell.condition,
        "repetition": cell.repetition,
        "position": whole_of(cell.plan, "position"),
        "ring": cell.ring,
        "verdict": cell.verdict,
    }


def handshake_table(bundle: BundleData) -> Table:
    """One row a cell: both walls, crypto sum, ratio, coverage, each with n."""
    table = Table("handshakes", names(COLUMNS))
    for cell in bundle.cells:
        rows = handshakes_of(cell)
        if (busy := cell.why_invalid("D", WALL_FIELD)) is not None:
            table.add(**cell_columns(cell), n=len(rows), reason=busy)
            continue
        walls = {role: [h.wall_ms[role] for h in rows] for role in ("drone", "gcs")}
        crypto = [h.crypto_ms for h in rows]
        p95_stands = cell.why_invalid("D", "handshake_p95_ms") is None
        max_stands = cell.why_invalid("D", "handshake_max_ms") is None
        table.add(
            **cell_columns(cell),
            n=len(rows),
            drone_wall_median_ms=median(walls["drone"]),
            drone_wall_p95_ms=tail(walls["drone"], 0.95) if p95_stands else None,
            drone_wall_min_ms=min(walls["drone"], default=None),
            drone_wall_max_ms=max(walls["drone"], default=None) if max_stands else None,
            gcs_wall_median_ms=median(walls["gcs"]),
            gcs_wall_p95_ms=tail(walls["gcs"], 0.95) if p95_stands else None,
            gcs_wall_min_ms=min(walls["gcs"], default=None),
            gcs_wall_max_ms=max(walls["gcs"], default=None) if max_stands else None,
            crypto_sum_median_ms=median(crypto),
            wall_over_crypto_ratio=median(
                [h.wall_ms["drone"] / h.crypto_ms for h in rows if h.crypto_ms > 0]
            ),
            coverage_drone_min_pct=_coverage(rows, "drone"),
            coverage_gcs_min_pct=_coverage(rows, "gcs"),
            **_waiting(rows),
            reason=None if rows else _why_none(cell),
        )
    return table


def _waiting(rows: list[Handshake]) -> dict[str, float | int | None]:
    """Medians of the three parts of each end's wall; missing where a host did not tell them."""
    told: dict[str, float | int | None] = {}
    for role in ("drone", "gcs"):
        parts = [h.parts[role] for h in rows if role in h.parts]
        queues = [p.queue_ns / 1e6 for p in parts]
        told[f"{role}_processor_median_ms"] = median([p.work_ns / 1e6 for p in parts])
        told[f"{role}_peer_wait_median_ms"] = median([p.peer_ns / 1e6 for p in parts])
        told[f"{role}_processor_wait_median_ms"] = median(queues)
        told[f"{role}_processor_wait_max_ms"] = max(queues, default=None)
        told[f"{role}_involuntary_count"] = sum(p.involuntary for p in parts) if parts else None
    return told


def _why_none(cell: Cell) -> str:
    """Why a cell has no handshake: its record's reason, its suite, or the spans."""
    made = cell.value("D", "handshake_total_duration_ms") or {}
    return str(cell.record.get("reason") or made.get("reason") or "no complete handshake in the spans")


def _coverage(rows: list[Handshake], role: str) -> float | None:
    """Least share of a host's wall that its spans cover, over the handshakes, percent."""
    shares = [100.0 * h.spans_ms.get(role, 0.0) / h.wall_ms[role] for h in rows if h.wall_ms[role] > 0]
    return min(shares, default=None)


def primitive_table(bundle: BundleData) -> Table:
    """One row an algorithm, operation, host and condition: median of cell medians, extremes over all
    handshakes. Conditions stand in the scenario's order."""
    table = Table("primitives", names(PRIMITIVE_COLUMNS))
    samples: dict[tuple[str, str, int, str, str, str, str], list[list[float]]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.facts is None or cell.verdict != "pass":
            continue
        by_step: dict[tuple[str, str], list[float]] = defaultdict(list)
        for handshake in handshakes_of(cell):
            for (step, host), duration_ms in handshake.steps_ms.items():
                by_step[step, host].append(duration_ms)
        for (step, host), values in by_step.items():
            kind = PRIMITIVES.get(step)
            if kind is not None:
                algorithm = cell.facts.kem if kind == "kem" else cell.facts.sig
                key = (algorithm, kind, cell.facts.level, step, host, cell.condition, cell.ring)
                samples[key].append(values)
    order = list(PRIMITIVES)
    named = [str(condition.get("name")) for condition in bundle.conditions]

    def place(k: tuple[str, str, int, str, str, str, str]) -> tuple[object, ...]:
        at = named.index(k[5]) if k[5] in named else len(named)
        return k[1], algorithm_order(k[0]), k[0], order.index(k[3]), k[4], at, k[5:]

    for key in sorted(samples, key=place):
        cells = samples[key]
        medians = [m for m in (median(values) for values in cells) if m is not None]
        every = [v for values in cells for v in values]
        algorithm, kind, level, operation, host, condition, ring = key
        table.add(
            algorithm=algorithm,
            kind=kind,
            level=level,
            operation=operation,
            host=host,
            condition=condition,
            ring=ring,
            n_cells=len(cells),
            n_handshakes=len(every),
            median_ms=median(medians),
            q1_ms=quantile7(medians, 0.25),
            q3_ms=quantile7(medians, 0.75),
            mean_ms=mean(every),
            min_ms=min(every),
            max_ms=max(every),
        )
    return table
