"""How long the vehicle takes to acknowledge, from commands.csv; nothing where nothing was asked."""

from __future__ import annotations

from pqevidence.analysis.column import pick
from pqevidence.measures.commands.tables import COLUMNS, NAME
from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Section, Table, label, number
from pqevidence.report.columns import Show, cells, heads
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant

KINDS = {
    "command": "command", "mode": "mode change", "auto": "start of a mission",
    "mission_upload": "mission upload", "param_download": "parameter download",
}  # fmt: skip


def commands(source: Source) -> Section | None:
    """One table: each suite, condition and kind, with and without a rekey under way."""
    rows = source.rows(NAME) if source.has(NAME) else []
    if not rows:
        return None
    return Section(
        "commands",
        "Until the vehicle acknowledges",
        (_table(source, rows),),
        "The ground station's own traffic: from the first sending of a request to its acknowledgement, "
        "through MAVProxy and the tunnel both ways, on the ground's clock alone. Commands go one at a time "
        "and are sent again after 1.5 s. A rekey was under way where its handshake at the ground and the "
        "wait for the answer overlap; long waits meet more of them. "
        "What was not answered within its limit has no time; it is counted.",
    )


def _table(source: Source, rows: list[RawRow]) -> Table:
    return Table(
        "commands-table",
        "Time to acknowledge, by suite, condition, kind and rekey",
        heads(SHOWN),
        blocks.rows_of([cells(row, SHOWN, SPECIAL) for row in rows]),
        source.ring,
        f"analysis/{NAME}.csv",
        "Median, P95 (from 20 values on) and most are of all exchanges of the cells. The mean is the "
        f"geometric one of the cells' medians. Cut off: the session ended first. {UNITS['repetition']}",
        collapsed=len(rows) > 60,
    )


def _interval(row: RawRow) -> Cell:
    if not row["low_ms"]:
        return blocks.missing(row["reason"] or None)
    return label(f"{significant(float(row['low_ms']))} to {significant(float(row['high_ms']))}")


def _count(name: str) -> Show:
    return lambda row: blocks.count(row[name])


def _time(name: str) -> Show:
    return lambda row: number(row[name], reason=row["reason"] or None)


COUNTS = (
    "n_cells",
    "acknowledged_count",
    "unanswered_count",
    "refused_count",
    "cut_count",
    "retries_count",
)
TIMES = ("p50_ms", "p95_ms", "max_ms", "mean_ms")
SHOWN = pick(COLUMNS, "suite_id", "condition", "kind", "phase", *COUNTS, *TIMES, "low_ms", "ring")
#: columns of which the page shows more than number or text
SPECIAL: dict[str, Show] = {
    **{name: _count(name) for name in COUNTS},
    **{name: _time(name) for name in TIMES},
    "kind": lambda row: label(KINDS.get(row["kind"], row["kind"])),
    "phase": lambda row: label({"all": "any", "rekey": "yes", "no rekey": "no"}[row["phase"]]),
    "low_ms": _interval,
}
