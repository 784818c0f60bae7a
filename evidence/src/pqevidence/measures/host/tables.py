"""cpu.csv, and overhead.csv: where the time of a cell went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.system import cpu_table
from pqevidence.analysis.table import Table

OVERHEAD_COLUMNS = (
    *CELL,
    Column("wall_s", "controller's first event of the cell to its last", "cell wall", "s", True),
    Column("handshake_window_s", "window of cold handshakes", "handshake window", "s", True),
    Column("traffic_window_s", "traffic window", "traffic window", "s", True),
    Column("bulk_windows_s", "all rungs of the ladder", "bulk windows", "s", True),
    Column("overhead_s", "wall less all labelled windows", "outside windows", "s", True),
    Column("reason", "why there are none"),
)


def make_tables(bundle: BundleData, _made: Mapping[str, Table]) -> Iterator[Table]:
    """Both."""
    yield cpu_table(bundle)
    yield overhead_table(bundle)


def overhead_table(bundle: BundleData) -> Table:
    """One row a cell: wall, labelled windows and what is left over, on the controller's clock."""
    table = Table("overhead", names(OVERHEAD_COLUMNS))
    for cell in bundle.cells:
        times = [int(e["t_ns"]) for e in cell.events if e.get("host") == "controller"]
        ended = sorted({str(e["window"]) for e in cell.events if e.get("event") == "window_end"})
        lengths = {name: _length_s(cell.window(name)) for name in ended}
        if len(times) < 2:
            table.add(**cell_columns(cell), reason=str(cell.record.get("reason") or "the cell did not run"))
            continue
        wall_s = (max(times) - min(times)) / 1e9
        bulk = [s for name, s in lengths.items() if name.startswith("bulk-")]
        table.add(
            **cell_columns(cell),
            wall_s=wall_s,
            handshake_window_s=lengths.get("handshake_cold"),
            traffic_window_s=lengths.get("traffic"),
            bulk_windows_s=sum(bulk) if bulk else None,
            overhead_s=wall_s - sum(lengths.values()),
        )
    return table


def _length_s(window: tuple[int, int] | None) -> float:
    return 0.0 if window is None else (window[1] - window[0]) / 1e9
