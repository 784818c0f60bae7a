"""One cell of each condition over its time: rate, loss and CPU in bins, what happened when, detector scores.

Shown is the first cell of a condition that passed, in the order of the run. Seconds count from the opening of
the drone's traffic gate; a canary that follows is part of the span, and of no other table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pqbase.documents import Json, part_of, whole_of
from pqdetect.service.verdict import window_end_ns
from pqevidence.analysis.load import ROLES, BundleData, Cell, read_ndjson
from pqevidence.analysis.stats import mean
from pqevidence.analysis.table import Table, Value
from pqevidence.analysis.traffic import TRAFFIC, read_ledger, shared_clock
from pqevidence.record.dataplane import gate_ns
from pqevidence.record.raw import CANARY
from pqevidence.record.system import LETTER
from pqevidence.scenario.conditions import sets_something
from pqtelemetry import slice as lines_of

#: a span has about so many bins, each of 1, 2 or 5 times a power of ten seconds
BINS_COUNT = 60
#: two telemetry samples
LEAST_BIN_S = 0.2
_COLUMNS = ("cell_id", "suite_id", "condition", "ring")
_LINK_EVENTS = ("link", "partition")


@dataclass(frozen=True)
class Span:
    """What is shown of a cell, realtime ns: from the gate's opening to its close or the canary's end."""

    open_ns: int
    close_ns: int
    end_ns: int

    def s(self, t_ns: int) -> float:
        """Seconds since the opening."""
        return (t_ns - self.open_ns) / 1e9

    @property
    def bin_s(self) -> float:
        """Width of a bin, s."""
        raw = max(self.s(self.end_ns) / BINS_COUNT, LEAST_BIN_S)
        power = 10.0 ** math.floor(math.log10(raw))
        return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= raw * (1 - 1e-9))


def timeline_tables(bundle: BundleData) -> list[Table]:
    """timeline.csv, timeline_bands.csv and, where a detector watched, detector_scores.csv."""
    bins = Table(
        "timeline",
        (
            *_COLUMNS,
            "from_s",
            "to_s",
            "sent_count",
            "lost_count",
            "rate_hz",
            "loss_pct",
            "cpu_drone_pct",
            "cpu_gcs_pct",
        ),
    )
    bands = Table("timeline_bands", (*_COLUMNS, "kind", "from_s", "to_s", "told"))
    scores = Table(
        "detector_scores", (*_COLUMNS, "detector", "t_s", "attack_score", "degraded_score", "attack")
    )
    conditions = {str(c["name"]): c for c in bundle.conditions}
    for cell in _shown(bundle):
        span = _span(cell)
        if span is None:
            continue
        who: dict[str, Value] = {
            "cell_id": cell.cell_id,
            "suite_id": cell.suite_id,
            "condition": cell.condition,
            "ring": cell.ring,
        }
        for row in _bins(cell, span):
            bins.add(**who, **row)
        for kind, start_ns, end_ns, told in _bands(cell, span, conditions.get(cell.condition) or {}):
            start, end = max(start_ns, span.open_ns), min(end_ns, span.end_ns)
            if start <= end:
                bands.add(**who, kind=kind, from_s=span.s(start), to_s=span.s(end), told=told)
        for line in read_ndjson(cell.directory / "detector.ndjson"):
            end_ns = window_end_ns(int(line["k"]))
            if line.get("state") == "ready" and span.open_ns <= end_ns <= span.end_ns:
                scores.add(
                    **who,
                    detector=str(line["detector"]),
                    t_s=span.s(end_ns),
                    attack_score=float(line["attack_score"]),
                    degraded_score=float(line["degraded_score"]),
                    attack=bool(line["attack"]),
                )
    return [table for table in (bins, bands, scores) if table is not scores or table.rows]


def _shown(bundle: BundleData) -> list[Cell]:
    """The first cell of each condition that passed, conditions in the order of the scenario."""
    first: dict[str, Cell] = {}
    for cell in sorted(bundle.cells, key=lambda cell: whole_of(cell.plan, "position")):
        if cell.verdict == "pass":
            first.setdefault(cell.condition, cell)
    named = [str(c["name"]) for c in bundle.conditions]
    return [first[name] for name in dict.fromkeys((*named, *first)) if name in first]


def _span(cell: Cell) -> Span | None:
    gate = gate_ns(cell.traffic_windows.get(TRAFFIC) or {}, "drone")
    if gate is None or gate[1] <= gate[0]:
        return None
    canary = cell.window(CANARY)
    return Span(*gate, max(gate[1], canary[1]) if canary else gate[1])


# ---------------------------------------------------------------------- bins


def _bins(cell: Cell, span: Span) -> Iterator[dict[str, Value]]:
    width_s = span.bin_s
    count = max(round(span.s(span.end_ns) / width_s), 1)
    ends = [min((place + 1) * width_s, span.s(span.end_ns)) for place in range(count)]
    ends[-1] = span.s(span.end_ns)
    sent, lost = _datagrams(cell, span, width_s, count)
    shares = {role: _cpu(cell, span, role, width_s, count) for role in ROLES}
    for place, end_s in enumerate(ends):
        start_s = place * width_s
        row: dict[str, Value] = {"from_s": start_s, "to_s": end_s}
        if sent is not None and lost is not None:
            row |= {
                "sent_count": sent[place],
                "lost_count": lost[place],
                "rate_hz": sent[place] / (end_s - start_s),
                "loss_pct": 100.0 * lost[place] / sent[place] if sent[place] else None,
            }
        yield row | {f"cpu_{role}_pct": shares[role][place] for role in ROLES}


def _place(t_s: float, width_s: float, count: int) -> int:
    """Number of the bin; the last one holds the rest of the span."""
    return min(int(t_s / width_s), count - 1)


def _datagrams(
    cell: Cell, span: Span, width_s: float, count: int
) -> tuple[list[int], list[int]] | tuple[None, None]:
    """Sent and lost on the way down by the drone's clock; (None, None) without a ledger at both ends."""
    paths = {role: cell.directory / f"ledger.{role}.csv" for role in ROLES}
    if not all(path.is_file() for path in paths.values()):
        return None, None
    arrived = read_ledger(paths["gcs"]).received
    sent, lost = [0] * count, [0] * count
    for key, t_in_ns, _ in read_ledger(paths["drone"]).sent:
        if span.open_ns <= t_in_ns < span.end_ns:
            place = _place(span.s(t_in_ns), width_s, count)
            sent[place] += 1
            lost[place] += key not in arrived
    return sent, lost


def _cpu(cell: Cell, span: Span, role: str, width_s: float, count: int) -> list[float | None]:
    """The tunnel's share of a core, mean of the samples in each bin; nothing where it does not count."""
    told: list[list[float]] = [[] for _ in range(count)]
    known = role == "drone" or shared_clock(cell)[0]
    if known and cell.why_invalid(LETTER[role], "tunnel_cpu_mean_pct") is None:
        lines = cell.telemetry_lines(role)
        samples = lines_of.values(lines, "pq_cpu", "process_pct", start_ns=span.open_ns, end_ns=span.end_ns)
        for t_ns, share in samples:
            told[_place(span.s(t_ns), width_s, count)].append(float(share))
    return [mean(values) for values in told]


# ---------------------------------------------------------------------- bands


def _bands(cell: Cell, span: Span, condition: Json) -> Iterator[tuple[str, int, int, str]]:
    """(kind, begin, end, words) of what happened, realtime ns."""
    if sets_something(condition.get("link")):
        yield (
            "impairment",
            span.open_ns,
            span.close_ns,
            str(part_of(condition, "link", {}).get("name") or "link"),
        )
    for event in cell.events:
        name, t_ns = event.get("event"), int(event.get("t_ns") or 0)
        if name == "rekey" and event.get("host") == "drone" and event.get("end_ns"):
            yield "rekey", int(event["start_ns"]), int(event["end_ns"]), str(event.get("result"))
        elif name == "timed_event" and event.get("ok") and event.get("timed") != "attack":
            length_ns = round(1e9 * float(event.get("for_s") or 0))
            kind = "impairment" if event["timed"] in _LINK_EVENTS else "event"
            until_ns = t_ns + length_ns if length_ns or kind == "event" else span.close_ns
            yield kind, t_ns, until_ns, str(event["timed"])
    yield from _attacks("attack", cell.directory / "attack.ndjson")
    yield from _attacks("canary", cell.directory / "canary" / "attack.ndjson")


def _attacks(kind: str, path: Path) -> Iterator[tuple[str, int, int, str]]:
    for row in read_ndjson(path):
        if row.get("t_on_ns") and row.get("t_off_ns"):
            told = f"{row.get('kind')}{' (benign)' if row.get('benign') else ''}"
            yield kind, int(row["t_on_ns"]), int(row["t_off_ns"]), told
