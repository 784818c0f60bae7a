"""What a long session leaves behind: memory, threads and open files of both tunnels, from begin to end.

Begin and end are the medians of the first and last tenth of the traffic window; the slope is Theil and Sen's
over at most 200 evenly spaced samples, which a few odd samples do not move. A session of two minutes or less
says nothing about growth and is left out. An endpoint keeps its ledger in memory until the cell is over: what
that takes of the growth stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from pqbase.documents import number_or_none, part_of
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import ROLES, BundleData, Cell
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Table, as_value
from pqevidence.record.dataplane import window_counter
from pqtelemetry import slice as lines_of
from pqtunnel.blackout import ROW_BYTES

LEAST_S = 120.0
MOST_POINTS = 200
#: quantity → (field of pq_mem, divisor to its unit)
QUANTITIES = {
    "rss_mb": ("rss_bytes", 1e6),
    "thread_count": ("thread_count", 1.0),
    "fd_count": ("fd_count", 1.0),
}
NAME = "growth"
COLUMNS = (
    *CELL,
    Column("host", "drone or gcs", "host"),
    Column("quantity", "memory, threads or open files", "quantity"),
    Column("session_s", "time from the first sample to the last", "session", "s", numeric=True),
    Column("n_samples", "samples in the traffic window", "samples", "n", numeric=True),
    Column("begin", "median of the first tenth", "begin", numeric=True),
    Column("end", "median of the last tenth", "end", numeric=True),
    Column("growth", "end less begin", "growth", numeric=True),
    Column("ledger_mb", "rows of the ledger that an end keeps", "of it ledger", "MB", numeric=True),
    Column("low", "least sample", "least", numeric=True),
    Column("high", "greatest sample", "most", numeric=True),
    Column("slope_per_h", "slope by Theil and Sen", "slope an hour", numeric=True),
    Column("rekeys_count", "rekeys of the cell", "rekeys", "n", numeric=True),
    Column("reason", "why a value is missing"),
)


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """growth where sessions are long."""
    table = growth_table(bundle)
    if table is not None:
        yield table


def growth_table(bundle: BundleData) -> Table | None:
    """One row a cell, host and quantity; None where sessions are short."""
    session_s = number_or_none(part_of(bundle.scenario, "traffic", {}), "session_s")
    if session_s is None or session_s <= LEAST_S:
        return None
    table = Table(NAME, names(COLUMNS))
    for cell in bundle.cells:
        window = cell.window("traffic")
        rekeys = as_value((cell.value("F", "rekey_success_count") or {}).get("value"))
        for role in ROLES:
            lines = cell.telemetry_lines(role) if window else []
            for quantity, (field, divisor) in QUANTITIES.items():
                start, end = window or (None, None)
                points = [
                    (t_ns / 3.6e12, float(value) / divisor)
                    for t_ns, value in lines_of.values(lines, "pq_mem", field, start_ns=start, end_ns=end)
                ]
                about = {**cell_columns(cell), "host": role, "quantity": quantity, "rekeys_count": rekeys}
                if len(points) < 20:
                    why = "no traffic window" if window is None else "the sampler does not tell it here"
                    table.add(**about, n_samples=len(points), reason=str(cell.record.get("reason") or why))
                    continue
                tenth = max(1, len(points) // 10)
                levels = [value for _, value in points]
                begin, last = median(levels[:tenth]), median(levels[-tenth:])
                table.add(
                    **about,
                    session_s=(points[-1][0] - points[0][0]) * 3600.0,
                    n_samples=len(points),
                    begin=begin,
                    end=last,
                    low=min(levels),
                    high=max(levels),
                    slope_per_h=slope(points),
                    growth=None if begin is None or last is None else last - begin,
                    ledger_mb=ledger_mb(cell, role) if quantity == "rss_mb" else None,
                )
    return table


def ledger_mb(cell: Cell, role: str) -> float | None:
    """Memory of the rows that this end's ledger gained in the traffic window; None where it kept none."""
    if not (cell.directory / f"ledger.{role}.csv").is_file():
        return None
    rows = [
        window_counter({role: part_of(cell.counters, role, {})}, role, "traffic", name)
        for name in ("tx_data", "rx_ok")
    ]
    counted = [count for count in rows if count is not None]
    return sum(counted) * ROW_BYTES / 1e6 if len(counted) == len(rows) else None


def slope(points: list[tuple[float, float]]) -> float | None:
    """Median of the slopes of all pairs (Sen 1968) of at most MOST_POINTS evenly spaced points."""
    step = max(1, -(-len(points) // MOST_POINTS))
    chosen = points[::step]
    return median([(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(chosen, 2) if x2 > x1])
