"""CPU with steal, temperature and overhead per cell."""

from __future__ import annotations

from collections.abc import Sequence

from pqevidence.analysis.column import pick
from pqevidence.analysis.stats import median
from pqevidence.analysis.system import COLUMNS, WAITING
from pqevidence.measures.host.tables import OVERHEAD_COLUMNS
from pqevidence.record.system import LETTER
from pqevidence.record.waiting import BEFORE_MEASURED
from pqevidence.report import blocks, figures
from pqevidence.report.blocks import Cell, Figure, Section, Table, label, missing, number
from pqevidence.report.columns import RAW, Show, cells, counts, heads, of_cell, values, which_cell
from pqevidence.report.source import NO_FIGURE, RawRow, Source, record_link, why_missing
from pqevidence.report.svg import counted
from pqtunnel.quiet import STEAL_LIMIT_PCT


def _why(row: RawRow) -> str:
    return row["reason"] or why_missing(row)


def _wait(source: Source, name: str) -> Show:
    """With the reason in the record; a record of an earlier version has no such field."""

    def show(row: RawRow) -> Cell:
        told = source.cells[row["cell_id"]].value(LETTER[row["host"]], name) or {}
        return number(row.get(name), reason=str(told.get("reason") or BEFORE_MEASURED))

    return show


def _valid(row: RawRow) -> Cell:
    if row["cpu_valid"] == "true":
        return label("yes")
    if row["cpu_valid"] == "false":
        return label(f"no: {row['reason'] or f'steal above {STEAL_LIMIT_PCT:g} %'}")
    return missing("no steal figure")


SHARES = (
    *("process_mean_pct", "process_max_pct", "container_mean_pct", "sampler_mean_pct", "system_mean_pct"),
    *("steal_mean_pct", "steal_max_pct", "rss_max_mb"),
)
LAST = ("temperature_mean_c", "cpu_valid")
WINDOWS = ("handshake_window_s", "traffic_window_s", "bulk_windows_s")
#: columns of which the page shows more than number or text
OF_CPU: dict[str, Show] = {
    **counts("n_samples", why=_why),
    **values(*SHARES, why=_why),
    **values("temperature_mean_c", why=lambda row: row["temperature_reason"]),
    "cpu_valid": _valid,
}
OF_OVERHEAD: dict[str, Show] = {
    **values("wall_s", digits=4, why=why_missing),
    **values(
        *WINDOWS, digits=4, why=lambda row: NO_FIGURE.get(row["verdict"], "no such window in this cell")
    ),
    **values("overhead_s", why=why_missing),
}


def cpu(source: Source) -> Section | None:
    """CPU, steal and temperature per cell and host."""
    rows = source.rows("cpu")
    if not rows:
        return None
    shown = pick(COLUMNS, *which_cell(source), "host", "n_samples", *SHARES, *WAITING, *LAST)
    special = of_cell(source) | OF_CPU | {name: _wait(source, name) for name in WAITING}
    return Section(
        "cpu",
        "CPU, steal and temperature",
        (
            Table(
                "cpu-table",
                "CPU of each host over the traffic window, at ten samples a second",
                (*heads(shown), RAW),
                blocks.rows_of([[*cells(row, shown, special), record_link(row["cell_id"])] for row in rows]),
                source.ring,
                "analysis/cpu.csv",
                cpu_holds(rows, source.ring),
                collapsed=len(rows) > 60,
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
    shown = pick(OVERHEAD_COLUMNS, *which_cell(source), "wall_s", *WINDOWS, "overhead_s", "verdict")
    special = of_cell(source) | OF_OVERHEAD
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
            (*heads(shown), RAW),
            blocks.rows_of([[*cells(row, shown, special), record_link(row["cell_id"])] for row in rows]),
            source.ring,
            "analysis/overhead.csv",
            collapsed=len(rows) > 60,
        )
    )
    return Section("overhead", "Overhead per cell", tuple(parts))
