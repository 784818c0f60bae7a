"""The numbers that conditions are compared by: one a cell and metric, from the tables of the bundle.

A cell that did not pass gives none. Every metric is one where less is better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pqevidence.analysis.handshakes import PRIMITIVES, handshakes_of
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, number
from pqevidence.record.handshake import PRIMITIVE_HOST

Scale = Literal["ratio", "difference"]


@dataclass(frozen=True)
class Metric:
    """name: stable, ends in its unit; scale: ratios of positive values, or differences where 0 is a value;
    assumed_floor: least effect that is stated while no noise floor was measured (a ratio, or in the unit)."""

    name: str
    label: str
    unit: str
    scale: Scale
    assumed_floor: float


def _times(*pairs: tuple[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(name, label, "ms", "ratio", 1.10) for name, label in pairs)


HANDSHAKE = "handshake_total_ms"
METRICS = (
    *_times(
        (HANDSHAKE, "cold handshake at the drone"),
        ("handshake_gcs_ms", "cold handshake at the ground"),
        *((f"{step}_ms", step) for step in PRIMITIVES),
        ("latency_down_p50_ms", "latency drone to ground, median"),
        ("latency_down_p95_ms", "latency drone to ground, P95"),
        ("latency_up_p50_ms", "latency ground to drone, median"),
        ("latency_up_p95_ms", "latency ground to drone, P95"),
        ("rekey_blackout_ms", "largest gap around a rekey"),
    ),
    Metric("cpu_drone_pct", "CPU of the drone's tunnel", "%", "ratio", 1.10),
    Metric("cpu_gcs_pct", "CPU of the ground's tunnel", "%", "ratio", 1.10),
    Metric("loss_down_pct", "loss drone to ground", "points", "difference", 0.1),
    Metric("loss_up_pct", "loss ground to drone", "points", "difference", 0.1),
)
BY_NAME = {metric.name: metric for metric in METRICS}

Values = dict[str, dict[str, float]]


def cell_values(bundle: BundleData, handshakes: Table, traffic: Table, cpu: Table) -> Values:
    """Metric name → cell id → value. What a cell does not have is absent, never zero."""
    values = table_values(handshakes.rows, traffic.rows, cpu.rows)
    for cell in bundle.cells:
        if cell.verdict == "pass":
            for name, value in _of_raw(cell).items():
                values[name][cell.cell_id] = value
    return values


def table_values(handshakes: Iterable[Row], traffic: Iterable[Row], cpu: Iterable[Row]) -> Values:
    """The part of the metrics that the per-cell tables hold."""
    values: Values = defaultdict(dict)

    def put(name: str, row: Row, column: str) -> None:
        if row["verdict"] == "pass" and row[column] is not None:
            values[name][str(row["cell_id"])] = number(row, column)

    for row in handshakes:
        put(HANDSHAKE, row, "drone_wall_median_ms")
        put("handshake_gcs_ms", row, "gcs_wall_median_ms")
    for row in traffic:
        if row["window"] == "traffic":
            for column in ("p50", "p95"):
                put(f"latency_{row['direction']}_{column}_ms", row, f"latency_{column}_ms")
            put(f"loss_{row['direction']}_pct", row, "loss_pct")
    for row in cpu:
        if row["cpu_valid"] is True:
            put(f"cpu_{row['host']}_pct", row, "process_mean_pct")
    return values


def _of_raw(cell: Cell) -> dict[str, float]:
    """Primitive times (median over the cell's handshakes) and the measured rekey blackout."""
    steps: dict[str, list[float]] = defaultdict(list)
    for handshake in handshakes_of(cell):
        for (step, host), duration_ms in handshake.steps_ms.items():
            if PRIMITIVE_HOST.get(step) == host:  # a drone's own signature is no part of the comparison
                steps[f"{step}_ms"].append(duration_ms)
    found = {name: value for name, times in steps.items() if (value := median(times)) is not None}
    field = cell.value("F", "rekey_blackout_duration_ms")
    if field is not None and field["validity"] == "ok" and isinstance(field["value"], int | float):
        found["rekey_blackout_ms"] = float(field["value"])
    return found
