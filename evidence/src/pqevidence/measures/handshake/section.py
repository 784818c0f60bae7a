"""Cold handshakes of all suites."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.analysis.handshakes import COLUMNS
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import to_float
from pqevidence.measures.handshake.parts import wall_parts
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Column, Figure, Section, Table, label, number, verdict
from pqevidence.report.columns import Show, cells, heads
from pqevidence.report.figures import FAMILY_LEGEND
from pqevidence.report.scatter import Point, scatter
from pqevidence.report.source import RawRow, Source, anchor, record_link, why_missing
from pqevidence.report.svg import counted

MS = "ms"


def all_suites(source: Source) -> Section:
    """Dots, heat map and table of every suite."""
    rows = source.rows("handshakes")
    one, under = source.of_one_condition(rows)
    drawn: list[blocks.Block] = [_dots(source, one, under)]
    heat = _heat(source, one, under)
    if heat is not None:
        drawn.append(heat)
    trade = _size_trade(source, one, under)
    if trade is not None:
        drawn.append(trade)
    drawn.append(_table(source, rows))
    drawn.append(wall_parts(source, one, under))
    drawn.append(_waiting(source, rows))
    return Section(
        "handshakes",
        "Handshake of all suites",
        tuple(drawn),
        "Cold handshakes: a fresh key pair each time. Wall is measured on the drone from connect to the "
        "verified "
        "Finished; the crypto sum adds the five primitives of that same handshake on both ends.",
    )


def _level(suite_id: str) -> str:
    """NIST level, or the word that stands in its place."""
    facts = suite_facts(suite_id)
    return facts.level_name if facts else "unknown"


def _group(suite_id: str) -> str:
    facts = suite_facts(suite_id)
    if facts is None:
        return "outside the registry"
    return f"NIST level {facts.level}" if facts.has_level else "no NIST level"


def _medians(rows: list[RawRow], column: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        value = to_float(row[column])
        if row["verdict"] == "pass" and value is not None:
            values.setdefault(row["suite_id"], []).append(value)
    return {suite: m for suite, v in values.items() if (m := median(v)) is not None}


def _dots(source: Source, rows: list[RawRow], under: str) -> Figure:
    walls, sums = _medians(rows, "drone_wall_median_ms"), _medians(rows, "crypto_sum_median_ms")
    first = {row["suite_id"]: row for row in reversed(rows)}
    dots = [
        figures.SuiteDot(
            label=suite.removeprefix("cs-"),
            family=row["kem_family"] or None,
            value=walls.get(suite),
            marker=sums.get(suite),
            href=anchor(row["cell_id"]),
            group=_group(suite),
            missing=f"not measured: {row['verdict']}",
        )
        for suite, row in first.items()
    ]
    dots.sort(key=lambda b: (b.group, b.value is None, b.value or 0.0, b.label))
    used = {b.family for b in dots}
    return Figure(
        "fig-handshake-suites",
        f"Cold handshake of {counted(len(dots), 'suite')}, fastest first within each level{under}",
        figures.handshake_dots("svg-handshake-suites", "Cold handshake by suite", dots),
        source.ring,
        "analysis/handshakes.csv",
        (*((c, n) for c, n in FAMILY_LEGEND if n in used), ("mark", "sum of the five primitives")),
    )


def _heat(source: Source, rows: list[RawRow], under: str) -> Figure | None:
    cells: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        value = to_float(row["drone_wall_median_ms"])
        if row["verdict"] == "pass" and value is not None and row["kem"]:
            cells.setdefault((row["kem"], row["sig"]), []).append(value)
    values = {key: m for key, v in cells.items() if (m := median(v)) is not None}
    if len(values) < 6:  # a handful of suites is no grid
        return None
    order = {row["kem"]: (row["kem_family"], row["level"]) for row in rows if row["kem"]}
    sig_order = {row["sig"]: (row["sig_family"], row["level"]) for row in rows if row["sig"]}
    families = ["ML-KEM", "HQC", "Classic-McEliece", "ML-DSA", "Falcon", "SPHINCS+"]

    def rank(item: tuple[str, tuple[str, str]]) -> tuple[int, str]:
        return (families.index(item[1][0]) if item[1][0] in families else 9, item[1][1])

    kems = [k for k, _ in sorted(order.items(), key=rank)]
    sigs = [s for s, _ in sorted(sig_order.items(), key=rank)]
    return Figure(
        "fig-handshake-heat",
        f"Median handshake by KEM and signature, over AEADs and repetitions{under}",
        figures.heat_map("svg-handshake-heat", "Handshake by KEM and signature", kems, sigs, values, MS),
        source.ring,
        "analysis/handshakes.csv",
    )


def _size_trade(source: Source, rows: list[RawRow], under: str) -> Figure | None:
    """Handshake over the bytes that public key, ciphertext and signature put on the wire."""
    sizes: dict[str, int] = {}
    for r in source.rows("sizes"):
        parts = [r[c] for c in ("public_key_bytes", "ciphertext_bytes", "signature_bytes") if r[c]]
        if parts:
            sizes[r["algorithm"]] = sum(int(p) for p in parts)
    walls: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        wall = to_float(row["drone_wall_median_ms"])
        if row["verdict"] == "pass" and wall is not None and row["kem"] in sizes and row["sig"] in sizes:
            walls.setdefault((row["kem"], row["sig"], row["kem_family"]), []).append(wall)
    points = [
        Point(f"{kem} + {sig}", family, float(sizes[kem] + sizes[sig]), middle)
        for (kem, sig, family), values in walls.items()
        if (middle := median(values)) is not None
    ]
    if len(points) < 6:  # a handful of suites is no cloud
        return None
    families = {p.family for p in points}
    return Figure(
        "fig-handshake-size",
        f"Median handshake over the bytes of public key, ciphertext and signature{under}",
        scatter(
            "svg-handshake-size",
            "Handshake and size",
            "bytes on the wire (log scale)",
            "handshake, ms (log scale)",
            points,
            "B",
            MS,
        ),
        source.ring,
        "analysis/handshakes.csv",
        tuple((c, n) for c, n in FAMILY_LEGEND if n in families),
    )


def _which(source: Source) -> tuple[str, ...]:
    """Columns that say which cell a row is, where there are several."""
    return (
        *(("condition",) if source.many_conditions else ()),
        *(("repetition",) if source.repetitions > 1 else ()),
    )


def _special(source: Source) -> dict[str, Show]:
    """Columns of which the page shows more than number or text."""
    return {
        "suite_id": lambda row: label(row["suite_id"], href=anchor(row["cell_id"])),
        "level": lambda row: label(_level(row["suite_id"])),
        "repetition": lambda row: blocks.count(source.nth(row["repetition"])),
        "verdict": lambda row: verdict(row["verdict"]),
        "n": lambda row: blocks.count(row["n"]),
        "drone_wall_p95_ms": lambda row: blocks.tail(
            row["drone_wall_p95_ms"], n=row["n"], reason=why_missing(row)
        ),
        **{name: _value(name) for name in VALUES},
        **{name: _value(name, digits=4) for name in COVERAGE},
        **{f"{role}_{part}": _part(source, role, part) for role in ("drone", "gcs") for part in PARTS},
    }


def _value(name: str, digits: int = 3) -> Show:
    return lambda row: number(row[name], digits=digits, reason=why_missing(row))


def _part(source: Source, role: str, part: str) -> Show:
    """Part of a wall, with the reason where the host does not tell it."""

    def show(row: RawRow) -> Cell:
        told = source.cells[row["cell_id"]].value("D", f"handshake_processor_{role}_ms") or {}
        why = str(why_missing(row) or told.get("reason") or BEFORE_MEASURED)
        return number(row.get(f"{role}_{part}"), reason=why)

    return show


VALUES = (
    "drone_wall_median_ms",
    "drone_wall_min_ms",
    "drone_wall_max_ms",
    "gcs_wall_median_ms",
    "crypto_sum_median_ms",
    "wall_over_crypto_ratio",
)
COVERAGE = ("coverage_drone_min_pct", "coverage_gcs_min_pct")
PARTS = (
    "processor_median_ms",
    "peer_wait_median_ms",
    "processor_wait_median_ms",
    "processor_wait_max_ms",
    "involuntary_count",
)


def _table(source: Source, rows: list[RawRow]) -> Table:
    walls = (VALUES[0], "drone_wall_p95_ms", *VALUES[1:])
    shown = pick(COLUMNS, "suite_id", "level", *_which(source), "verdict", "n", *walls, *COVERAGE)
    special = _special(source)
    return Table(
        "handshake-table",
        "Cold handshake of every cell; median, p95, min and max over its n handshakes",
        (*heads(shown), Column("raw")),
        blocks.rows_of([[*cells(row, shown, special), record_link(row["cell_id"])] for row in rows]),
        source.ring,
        "analysis/handshakes.csv",
        "Span cover: the least share of a host's wall that its independently timed spans add up to.",
    )


def _waiting(source: Source, rows: list[RawRow]) -> Table:
    """Each end's wall in three parts, with the reason where a host does not tell them."""
    parts = [f"{role}_{part}" for role in ("drone", "gcs") for part in PARTS]
    shown = pick(COLUMNS, "suite_id", *_which(source), *parts)
    special = _special(source)
    return Table(
        "handshake-waiting",
        "What each end's wall of the cold handshake went into: work and waiting, medians over n handshakes",
        heads(shown),
        blocks.rows_of([cells(row, shown, special) for row in rows]),
        source.ring,
        "analysis/handshakes.csv",
        "Work: processor time of the thread. For the peer: it slept, for the network and the other end. For "
        "a processor: it could have run and had none, because something else ran. The three make up each "
        "wall; their medians need not make up its median. Preempted: times it was taken off, over all "
        "handshakes.",
    )
