"""Traffic contract, latency, throughput, CPU with steal, temperature and overhead per cell."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.analysis.stats import median
from pqevidence.analysis.system import WAITING
from pqevidence.record.system import LETTER
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import (
    Cell,
    Column,
    Figure,
    Section,
    Table,
    label,
    missing,
    number,
    verdict,
)
from pqevidence.report.source import NO_FIGURE, RawRow, Source, anchor, record_link, why_missing
from pqevidence.report.svg import counted
from pqtunnel.quiet import STEAL_LIMIT_PCT

WORDS = {"down": "drone → GCS", "up": "GCS → drone"}


def _suite(source: Source, row: RawRow) -> list[Cell]:
    """The columns that say which cell a row belongs to."""
    cells = [label(row["suite_id"], href=anchor(row["cell_id"]))]
    if source.many_conditions:
        cells.append(label(row["condition"]))
    if source.repetitions > 1:
        cells.append(blocks.count(source.nth(row["repetition"])))
    return cells


def _suite_columns(source: Source) -> list[Column]:
    columns = [Column("suite")]
    if source.many_conditions:
        columns.append(Column("condition"))
    if source.repetitions > 1:
        columns.append(Column("rep", "", True))
    return columns


def _why_no_wait(source: Source, row: RawRow, column: str) -> str:
    """The reason in the record; a record of an earlier version has no such field."""
    told = source.cells[row["cell_id"]].value(LETTER[row["host"]], column) or {}
    return str(told.get("reason") or BEFORE_MEASURED)


def cpu(source: Source) -> Section | None:
    """CPU, steal and temperature per cell and host."""
    rows = source.rows("cpu")
    if not rows:
        return None
    lines = []
    for r in rows:
        why = r["reason"] or why_missing(r)
        stolen = f"no: steal above {STEAL_LIMIT_PCT:g} %"
        valid = {"true": label("yes"), "false": label(f"no: {r['reason']}" if r["reason"] else stolen)}
        lines.append(
            [
                *_suite(source, r),
                label(r["host"]),
                blocks.count(r["n_samples"], reason=why),
                *(
                    number(r[c], reason=why)
                    for c in (
                        "process_mean_pct",
                        "process_max_pct",
                        "container_mean_pct",
                        "sampler_mean_pct",
                        "system_mean_pct",
                        "steal_mean_pct",
                        "steal_max_pct",
                        "rss_max_mb",
                    )
                ),
                *(number(r.get(c), reason=_why_no_wait(source, r, c)) for c in WAITING),
                number(r["temperature_mean_c"], reason=r["temperature_reason"]),
                valid.get(r["cpu_valid"], missing("no steal figure")),
                record_link(r["cell_id"]),
            ]
        )
    return Section(
        "cpu",
        "CPU, steal and temperature",
        (
            Table(
                "cpu-table",
                "CPU of each host over the traffic window, at ten samples a second",
                (
                    *_suite_columns(source),
                    Column("host"),
                    Column("samples", "n", True),
                    Column("tunnel, mean", "% of a core", True),
                    Column("tunnel, max", "% of a core", True),
                    Column("container", "% of a core", True),
                    Column("sampler", "% of a core", True),
                    Column("system", "% of all cores", True),
                    Column("steal, mean", "% of all cores", True),
                    Column("steal, max", "% of all cores", True),
                    Column("tunnel RSS, max", "MB", True),
                    Column("tunnel waited for a processor", "% of the window", True),
                    Column("some thread waited", "% of the window", True),
                    Column("temperature", "°C", True),
                    Column("valid for CPU claims"),
                    Column("raw"),
                ),
                blocks.rows_of(lines),
                source.ring,
                "analysis/cpu.csv",
                cpu_holds(rows, source.ring),
                collapsed=len(lines) > 60,
            ),
        ),
    )


def cpu_holds(rows: Sequence[RawRow], ring: str) -> str:
    """What these CPU figures hold beside the tunnel's own work, in words."""
    # bundles of older versions do not say
    kept, shared = ({row.get(name, "") for row in rows} for name in ("ledger", "controller_on_dut"))
    told = {
        frozenset({"true"}): "The ledger was on: the tunnel's share holds what it costs",
        frozenset({"false"}): "The ledger was off",
        frozenset({""}): "The table does not say whether the ledger was on",
    }.get(frozenset(kept), "The ledger was on where the table says so (column `ledger` of the data)")
    told += ". `observer-effect` measures the difference."
    if "true" in shared:
        told += " The controller ran on the drone's machine and is in the system's share."
    if ring == "lab":
        told += " Both ends share the cores of one machine: these figures are no claim about a board."
    return told


def overhead(source: Source) -> Section | None:
    """Time outside labelled windows."""
    rows = source.rows("overhead")
    ran = [r for r in rows if r["overhead_s"]]
    if not ran:
        return None
    values = tuple(float(r["overhead_s"]) for r in ran)
    lines = [
        [
            *_suite(source, r),
            number(r["wall_s"], digits=4, reason=why_missing(r)),
            *(
                number(r[c], digits=4, reason=NO_FIGURE.get(r["verdict"], "no such window in this cell"))
                for c in ("handshake_window_s", "traffic_window_s", "bulk_windows_s")
            ),
            number(r["overhead_s"], reason=why_missing(r)),
            verdict(r["verdict"]),
            record_link(r["cell_id"]),
        ]
        for r in rows
    ]
    parts: list[blocks.Block] = []
    if min(values) > 0:
        parts.append(
            Figure(
                "fig-overhead",
                f"Time outside labelled windows in {counted(len(values), 'cell')}",
                figures.strips(
                    "svg-overhead",
                    "Overhead per cell",
                    "s outside labelled windows (log scale)",
                    [figures.Strip("every cell", None, values, median(values))],
                    "s",
                ),
                source.ring,
                "analysis/overhead.csv",
            )
        )
    parts.append(
        Table(
            "overhead-table",
            "Where the time of each cell went; the rest lies outside every labelled window",
            (
                *_suite_columns(source),
                Column("cell wall", "s", True),
                Column("handshake window", "s", True),
                Column("traffic window", "s", True),
                Column("bulk windows", "s", True),
                Column("outside windows", "s", True),
                Column("verdict"),
                Column("raw"),
            ),
            blocks.rows_of(lines),
            source.ring,
            "analysis/overhead.csv",
            collapsed=len(lines) > 60,
        )
    )
    return Section("overhead", "Overhead per cell", tuple(parts))
