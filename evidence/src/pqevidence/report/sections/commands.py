"""How long the vehicle takes to acknowledge, from commands.csv; nothing where nothing was asked."""

from __future__ import annotations

from pqevidence.report import blocks
from pqevidence.report.blocks import Cell, Column, Section, Table, label, number
from pqevidence.report.inference import UNITS
from pqevidence.report.source import RawRow, Source
from pqevidence.report.svg import significant

NAME = "commands"
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
        (
            Column("suite"),
            Column("condition"),
            Column("asked"),
            Column("rekey under way"),
            Column("cells", "n", True),
            Column("acknowledged", "n", True),
            Column("unanswered", "n", True),
            Column("refused", "n", True),
            Column("cut off", "n", True),
            Column("sent again", "n", True),
            Column("median", "ms", True),
            Column("P95", "ms", True),
            Column("most", "ms", True),
            Column("mean of cells", "ms", True),
            Column("95 % interval", "ms"),
            Column("ring"),
        ),
        blocks.rows_of([_row(row) for row in rows]),
        source.ring,
        f"analysis/{NAME}.csv",
        "Median, P95 (from 20 values on) and most are of all exchanges of the cells. The mean is the "
        f"geometric one of the cells' medians. Cut off: the session ended first. {UNITS['repetition']}",
        collapsed=len(rows) > 60,
    )


def _row(row: RawRow) -> list[Cell]:
    why = row["reason"] or None
    spread = (
        f"{significant(float(row['low_ms']))} to {significant(float(row['high_ms']))}"
        if row["low_ms"]
        else ""
    )
    phase = {"all": "any", "rekey": "yes", "no rekey": "no"}[row["phase"]]
    counts = (
        "n_cells",
        "acknowledged_count",
        "unanswered_count",
        "refused_count",
        "cut_count",
        "retries_count",
    )
    return [
        label(row["suite_id"]),
        label(row["condition"]),
        label(KINDS.get(row["kind"], row["kind"])),
        label(phase),
        *(blocks.count(row[name]) for name in counts),
        *(number(row[name], reason=why) for name in ("p50_ms", "p95_ms", "max_ms", "mean_ms")),
        label(spread) if spread else blocks.missing(why),
        label(row["ring"]),
    ]
