"""What each end's wall of a handshake went into, drawn: work, waiting for the peer, for a processor."""

from __future__ import annotations

from pqevidence.analysis.load import ROLES, suite_facts
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import to_float
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report.blocks import Figure, Paragraphs
from pqevidence.report.source import RawRow, Source, anchor
from pqevidence.report.stacks import Stack, Stacked, stacks

ENDS = {"drone": "drone", "gcs": "GCS"}
#: CSS class, what it is, name in record (`handshake_…_<role>_ms`) and table (`<role>_…_median_ms`)
PARTS = (
    ("s-3", "work", "processor"),
    ("s-1", "waiting for the peer", "peer_wait"),
    ("s-4", "waiting for a processor", "processor_wait"),
)
SERIES = tuple((shade, name) for shade, name, _ in PARTS)


def wall_parts(source: Source, rows: list[RawRow], under: str) -> Figure | Paragraphs:
    """One bar a suite and end; where no end tells, the sentence that says why. rows: those of
    handshakes.csv under one condition; under: the words that say which."""
    suites: dict[str, list[RawRow]] = {}
    for row in rows:
        suites.setdefault(row["suite_id"], []).append(row)
    bars = {suite: {role: _bar(source, mine, role) for role in ROLES} for suite, mine in suites.items()}
    silent = [role for role in ROLES if all(ends[role].parts is None for ends in bars.values())]
    if len(silent) == len(ROLES):
        told = [f"{ENDS[role]}: {_reasons(bars, role)}." for role in silent]
        return Paragraphs(
            "handshake-parts-none", (f"The parts of the walls are not drawn. {' '.join(told)}",)
        )
    drawn = [_row(suites[suite], ends, silent) for suite, ends in bars.items()]
    drawn.sort(key=lambda row: (row.group, row.bars[0].total is None, row.bars[0].total or 0.0, row.label))
    absent = [Stack(ENDS[role], None, missing=_reasons(bars, role)) for role in silent]
    if absent:
        drawn.append(Stacked("every suite", tuple(absent), group="not drawn"))
    return Figure(
        "fig-handshake-parts",
        f"What the walls of {len(suites)} suite{'s' if len(suites) != 1 else ''} went into at each end: "
        f"medians over handshakes, then over cells{under}",
        stacks("svg-handshake-parts", "Parts of the handshake's wall", drawn, SERIES, "ms", "wall"),
        source.ring,
        "analysis/handshakes.csv",
        SERIES,
    )


def _row(rows: list[RawRow], ends: dict[str, Stack], silent: list[str]) -> Stacked:
    """A suite's bars, but for the ends that tell of no suite at all."""
    suite = rows[0]["suite_id"]
    facts = suite_facts(suite)
    group = "outside the registry" if facts is None else "no NIST level"
    if facts is not None and facts.has_level:
        group = f"NIST level {facts.level}"
    shown = tuple(ends[role] for role in ROLES if role not in silent)
    return Stacked(suite.removeprefix("cs-"), shown, anchor(rows[0]["cell_id"]), group)


def _bar(source: Source, rows: list[RawRow], role: str) -> Stack:
    """Medians over the cells that passed and told; else why there are none."""
    passed = [row for row in rows if row["verdict"] == "pass"]
    why = [_untold(source, row, role) for row in passed]
    known = [row for row, reason in zip(passed, why, strict=True) if reason is None]
    parts = [_median(known, f"{role}_{name}_median_ms") for _, _, name in PARTS]
    if all(part is not None for part in parts):
        told = tuple(part for part in parts if part is not None)
        return Stack(ENDS[role], told, _median(known, f"{role}_wall_median_ms"))
    reasons = dict.fromkeys(filter(None, why)) or dict.fromkeys(row["verdict"] for row in rows)
    return Stack(ENDS[role], None, missing=f"not measured: {'; '.join(reasons)}")


def _untold(source: Source, row: RawRow, role: str) -> str | None:
    """Why this cell's parts are not drawn, by its record; None where they may be."""
    cell = source.cells[row["cell_id"]]
    for _, _, name in PARTS:
        field = cell.value("D", f"handshake_{name}_{role}_ms") or {}
        if field.get("value") is None or field.get("validity") == "invalid":
            return str(field.get("reason") or BEFORE_MEASURED)
    return None


def _median(rows: list[RawRow], column: str) -> float | None:
    values = [value for row in rows if (value := to_float(row.get(column) or "")) is not None]
    return median(values)


def _reasons(bars: dict[str, dict[str, Stack]], role: str) -> str:
    return "; ".join(dict.fromkeys(ends[role].missing for ends in bars.values()))
