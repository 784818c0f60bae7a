"""detector_scenarios.csv: one figure a quantity and condition, twins left out, over the cells that passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pqbase.stats import tail
from pqevidence.analysis.column import Column, names
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.stats import mean, median
from pqevidence.analysis.table import Row, Table, number

NAME = "detector_scenarios"
COLUMNS = (
    Column("metric", "quantity, in words"),
    Column("unit", "its unit"),
    Column("condition", "condition"),
    Column("n_cells", "cells that passed and have it"),
    Column("value", "the figure"),
    Column("planned_count", "cells planned"),
    Column("passed_count", "of those: passed"),
)
Function = Callable[[Sequence[float]], float | None]


def scenario_table(handshakes: Table, cpu: Table, traffic: Table, cells: Table, bundle: BundleData) -> Table:
    """Means and medians that stand side by side and claim nothing; cells: detectors.csv."""
    drone = [row for row in cpu.rows if row["host"] == "drone"]
    down = [row for row in traffic.rows if row["window"] == "traffic" and row["direction"] == "down"]
    quantities: tuple[tuple[str, str, list[Row], str, Function], ...] = (
        ("handshake, median over cells", "ms", handshakes.rows, "drone_wall_median_ms", median),
        ("handshake, mean over cells", "ms", handshakes.rows, "drone_wall_median_ms", mean),
        ("handshake, P95 over cells", "ms", handshakes.rows, "drone_wall_median_ms", _p95),
        ("CPU of the machine, mean", "% of all cores", drone, "system_mean_pct", mean),
        ("CPU of the machine, busiest cell", "% of all cores", drone, "system_mean_pct", _largest),
        ("CPU of the drone's tunnel, mean", "% of a core", drone, "process_mean_pct", mean),
        ("CPU of the detector, mean", "% of a core", cells.rows, "cpu_mean_pct", mean),
        ("memory of the detector, largest", "MB", cells.rows, "rss_mb", _largest),
        ("temperature, mean", "°C", drone, "temperature_mean_c", mean),
        ("datagrams sent, median", "datagrams", down, "sent_count", median),
        ("loss, mean", "%", down, "loss_pct", mean),
    )
    shown = [str(condition["name"]) for condition in bundle.conditions if not condition.get("aa_of")]
    counted = {name: [cell for cell in bundle.cells if cell.condition == name] for name in shown}
    table = Table(NAME, names(COLUMNS))
    for metric, unit, rows, column, function in quantities:
        for name in shown:
            values = _values(rows, name, column)
            table.add(
                metric=metric,
                unit=unit,
                condition=name,
                n_cells=len(values),
                value=function(values),
                planned_count=len(counted[name]),
                passed_count=sum(cell.verdict == "pass" for cell in counted[name]),
            )
    return table


def _values(rows: Iterable[Row], condition: str, column: str) -> list[float]:
    return [
        number(row, column)
        for row in rows
        if row["condition"] == condition and row["verdict"] == "pass" and row[column] is not None
    ]


def _p95(values: Sequence[float]) -> float | None:
    return tail(values, 0.95)


def _largest(values: Sequence[float]) -> float | None:
    return max(values, default=None)
