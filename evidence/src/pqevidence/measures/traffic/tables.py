"""traffic.csv, latency_shares.csv, throughput.csv (the ladder of offered rates) and aead.csv.

aead.csv has seal and open in the running tunnel, a row an AEAD and condition, from every cell's counters.
These are times of whole calls around the cipher, as the published table's were: header, associated data and
nonce included. One number a cell (its mean over all calls); medians over the cells that passed. `seal_ratio`
is against the condition's first AEAD; a share of a core is the time of one call times the calls a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pqbase.documents import Json, exact_or_none, number_of, part_of, whole_of
from pqbase.stats import quantile7
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.latency import LatencyShares
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Table, Value, as_value
from pqevidence.analysis.traffic import BULK_PREFIX, counters_of, duration_s_of, traffic_table
from pqevidence.record.rings import weakest

#: A rung of the offered-rate ladder holds when at most this share is lost …
KNEE_LOSS_PCT = 0.1
#: … and at least this share of the offered rate was taken in by the tunnel.
KNEE_OFFERED_PCT = 98.0
WAYS = ("seal", "open")
#: datagrams a second of the published arithmetic
RATE_HZ = 320
THROUGHPUT_COLUMNS = (
    *CELL,
    Column("window", "rung of the ladder"),
    Column("size_bytes", "plaintext of a datagram"),
    Column("duration_s", "how long the drone's gate was open"),
    Column("offered_pps", "rate that was asked for", "offered", "1/s", True),
    Column("source_pps", "rate by the source's first and last datagram", "sent by the source", "1/s", True),
    Column("taken_pps", "rate at which the tunnel read its socket", "taken in", "1/s", True),
    Column("offered_mbps", "the offered rate in plaintext", "offered", "Mbit/s", True),
    Column("goodput_mbps", "plaintext delivered", "goodput", "Mbit/s", True),
    Column("sent_count", "datagrams that the tunnel took in", "sent", "datagrams", True),
    Column("received_count", "datagrams that it handed on", "received", "datagrams", True),
    Column("corrupt_count", "of those: not as sent, by the sink", "corrupt", "datagrams", True),
    Column("duplicate_count", "of those: twice, by the sink"),
    Column("loss_pct", "between the ends of the tunnel", "loss", "%", True),
    Column("holds", "does the rung hold? docs/STATISTICS.md says when", "holds"),
    Column("knee", "knee at the last rung that holds, not reached where all do", "knee"),
)


def _calls_of(way: str, heading: str) -> tuple[Column, ...]:
    return (
        Column(f"{way}_median_us", f"one call to {way}: median of the cells' means", heading, "µs", True),
        Column(f"{way}_q1_us", "the same: lower quartile"),
        Column(f"{way}_q3_us", "the same: upper quartile"),
        Column(f"{way}_count", "calls in all cells", "calls", "n", True),
    )


AEAD_COLUMNS = (
    Column("aead", "AEAD", "AEAD"),
    Column("condition", "condition", "condition"),
    Column("ring", "weakest ring among the cells", "ring"),
    Column("n_cells", "cells that passed", "cells", "n", True),
    *_calls_of("seal", "seal, drone"),
    *_calls_of("open", "open, GCS"),
    Column("seal_ratio", "median seal over that of the first AEAD", "seal, against the first", "", True),
    Column(f"seal_{RATE_HZ}hz_pct", "that rate of calls", f"seal at {RATE_HZ} Hz", "% of a core", True),
)


def make_tables(bundle: BundleData, _made: Mapping[str, Table]) -> Iterator[Table]:
    """All four."""
    shares = LatencyShares()
    yield traffic_table(bundle, shares)
    yield shares.table()
    yield throughput_table(bundle)
    yield aead_table(bundle)


def throughput_table(bundle: BundleData) -> Table:
    """One row a cell and rung of the offered-rate ladder; ``knee`` marks the last rung that holds."""
    table = Table("throughput", names(THROUGHPUT_COLUMNS))
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
    spec = part_of(report, "spec", {})
    out, into = counters_of(cell, "drone", window), counters_of(cell, "gcs", window)
    duration_s = duration_s_of(report)
    if not out or not into or not duration_s:
        return None
    sink = part_of(part_of(part_of(report, "gcs", {}), "source_report", {}), "received", {})
    offered_pps = (
        number_of(spec, "rate_hz") if spec.get("rate_hz") else float(window.removeprefix(BULK_PREFIX))
    )
    size_bytes = whole_of(spec, "size_bytes") if spec.get("size_bytes") else None
    sent, received = whole_of(out, "plaintext_in"), whole_of(into, "plaintext_out")
    loss_pct = 100.0 * (sent - received) / sent if sent else None
    taken = sent / duration_s
    return {
        "window": window,
        "size_bytes": size_bytes,
        "duration_s": duration_s,
        "offered_pps": offered_pps,
        "source_pps": _source_pps(part_of(part_of(report, "drone", {}), "source_report", {})),
        "taken_pps": taken,
        "offered_mbps": offered_pps * size_bytes * 8 / 1e6 if size_bytes else None,
        "goodput_mbps": whole_of(into, "plaintext_out_bytes") * 8 / duration_s / 1e6,
        "sent_count": sent,
        "received_count": received,
        "corrupt_count": as_value(sink.get("corrupt")),
        "duplicate_count": as_value(sink.get("duplicate")),
        "loss_pct": loss_pct,
        "holds": loss_pct is not None
        and loss_pct <= KNEE_LOSS_PCT
        and taken >= offered_pps * KNEE_OFFERED_PCT / 100.0,
    }


def _source_pps(report: Json) -> float | None:
    """The rate at which the source really sent, from its own first and last datagram."""
    sent = part_of(report, "sent", {})
    count, first, last = (exact_or_none(sent, name) for name in ("count", "first_ns", "last_ns"))
    if not count or count < 2 or not first or not last or last <= first:
        return None
    return (count - 1) * 1e9 / (last - first)


def aead_table(bundle: BundleData) -> Table:
    """Rows in the registry's order of suites; an AEAD without a cell that passed has none."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in bundle.cells:
        if cell.verdict == "pass" and cell.facts is not None and cell.facts.kem != "none":
            groups[cell.facts.aead, cell.condition].append(cell)
    table = Table("aead", names(AEAD_COLUMNS))
    firsts: dict[str, float] = {}  # condition → seal of its first AEAD
    for (aead, condition), cells in groups.items():
        columns: dict[str, float | int | None] = {}
        for way in WAYS:
            means = [v / 1e3 for v in _numbers(cells, f"aead_{way}_mean_ns")]
            counts = _numbers(cells, f"aead_{way}_count")
            columns[f"{way}_median_us"] = median(means)
            columns[f"{way}_q1_us"], columns[f"{way}_q3_us"] = quantile7(means, 0.25), quantile7(means, 0.75)
            columns[f"{way}_count"] = int(sum(counts)) if counts else None
        seal_us = columns["seal_median_us"]
        if seal_us:
            columns["seal_ratio"] = seal_us / firsts.setdefault(condition, seal_us)
            columns[f"seal_{RATE_HZ}hz_pct"] = seal_us * RATE_HZ / 1e4
        if seal_us is not None or columns["open_median_us"] is not None:
            ring = weakest(cell.ring for cell in cells)
            table.add(aead=aead, condition=condition, ring=ring, n_cells=len(cells), **columns)
    return table


def _numbers(cells: list[Cell], name: str) -> list[float]:
    found = ((cell.value("G", name) or {}).get("value") for cell in cells)
    return [float(v) for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
