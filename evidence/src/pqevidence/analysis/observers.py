"""What observing costs: cells with every observer on against cells in which one of them stood still.

From the kernel's accounts that the controller read around the traffic window (observers.json) and, where
ledgers were kept, from their delays. Effects are differences in the metric's own unit, condition minus
reference, pair by pair within blocks; A/A twins give the noise floor. See docs/STATISTICS.md for both.
"""

from __future__ import annotations

from collections import defaultdict

from pqevidence.analysis.claims import BLOCK, adjusted, seen_from, tested_scopes, verdict_of
from pqevidence.analysis.conditions import (
    Contrast,
    Difference,
    conditions_of,
    contrasts_of,
    costs_of,
    differences_of,
    null_of,
    pairs_of,
)
from pqevidence.analysis.estimate import LEVEL
from pqevidence.analysis.load import BundleData, Cell, Json, read_optional_json
from pqevidence.analysis.metrics import Metric, Values
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, number, present
from pqevidence.scenario.conditions import observers_vary, without

NAME = "observer_effect"
COLUMNS = (
    "condition", "left_out", "added", "reference", "kind", "metric", "label", "unit", "n_pairs", "n_suites",
    "reference_median", "condition_median", "mean_effect", "low_effect", "high_effect", "interval_level",
    "method", "p_value", "p_holm", "family_count", "floor_effect", "floor_pairs", "floor_method",
    "visible_effect", "unit_of_inference", "verdict", "reason", "ring", "cells",
)  # fmt: skip
#: floors that are assumed while fewer than ten A/A pairs were measured: points of one core, ms, datagrams
METRICS = (
    Metric("tunnel_cpu_drone_pct", "CPU of the drone's tunnel", "% of a core", "difference", 0.5),
    Metric("tunnel_cpu_gcs_pct", "CPU of the ground's tunnel", "% of a core", "difference", 0.5),
    Metric("sampler_cpu_pct", "CPU of both samplers", "% of a core", "difference", 0.5),
    Metric("view_cpu_pct", "CPU of Telegraf and InfluxDB", "% of a core", "difference", 0.5),
    Metric("machine_cpu_pct", "CPU of the whole machine", "% of a core", "difference", 5.0),
    Metric("latency_down_p50_ms", "latency drone to ground, median", "ms", "difference", 0.1),
    Metric("latency_down_p99_ms", "latency drone to ground, P99", "ms", "difference", 1.0),
    Metric("latency_up_p50_ms", "latency ground to drone, median", "ms", "difference", 0.1),
    Metric("latency_up_p99_ms", "latency ground to drone, P99", "ms", "difference", 1.0),
    Metric("lost_count", "datagrams lost, both directions", "datagrams", "difference", 0.5),
)
VIEW = ("telegraf", "influxdb")


def observer_table(bundle: BundleData, traffic: Table) -> Table | None:
    """One row a condition and metric; None where no condition leaves an observer out."""
    conditions = conditions_of(bundle)
    if not observers_vary({"conditions": conditions}):
        return None
    by_name = {str(condition["name"]): condition for condition in conditions}
    values = observer_values(bundle, traffic)
    contrasts = contrasts_of(conditions)
    found: dict[Contrast, dict[str, list[Difference]]] = {
        contrast: {
            metric.name: differences_of(pairs_of(bundle.cells, contrast), metric, values.get(metric.name, {}))
            for metric in METRICS
        }
        for contrast in contrasts
    }
    nulls = {
        metric.name: null_of(
            [d for contrast in contrasts if contrast.twins for d in found[contrast][metric.name]], metric
        )
        for metric in METRICS
    }
    table = Table(NAME, COLUMNS)
    for contrast in contrasts:
        measured = [metric for metric in METRICS if found[contrast][metric.name]]
        tests = [
            tested_scopes(found[contrast][metric.name], bundle.seed, len(measured))[0] for metric in measured
        ]
        for metric, test, corrected in zip(measured, tests, adjusted(tests), strict=True):
            result = test.result
            floor = nulls[metric.name].floor(costs_of(test.differences))
            pairs = [difference.pair for difference in test.differences]
            own = values[metric.name]
            table.add(
                condition=contrast.condition,
                **_difference_of(by_name[contrast.condition], by_name[contrast.reference]),
                reference=contrast.reference,
                kind="A/A" if contrast.twins else "A/B",
                metric=metric.name, label=metric.label, unit=metric.unit,
                n_pairs=result.n, n_suites=len({pair.suite_id for pair in pairs}),
                reference_median=median(present(own.get(pair.reference) for pair in pairs)),
                condition_median=median(present(own.get(pair.condition) for pair in pairs)),
                mean_effect=result.mean, low_effect=result.low, high_effect=result.high,
                interval_level=None if result.low is None else LEVEL, method=result.method,
                p_value=result.p_value, p_holm=corrected.holm, family_count=corrected.count,
                floor_effect=floor.value, floor_pairs=floor.pairs, floor_method=floor.method,
                visible_effect=seen_from(result, floor, corrected.count), unit_of_inference=BLOCK,
                verdict=verdict_of(result, corrected.holm, floor),
                reason=result.method if result.low is None else None,
                ring=min((pair.ring for pair in pairs), key=("sim", "lab", "hardware").index),
                cells=" ".join(sorted({c for pair in pairs for c in (pair.reference, pair.condition)})),
            )  # fmt: skip
    return table


def _difference_of(condition: Json, reference: Json) -> Row:
    """Which observers the condition leaves out, and which it has beyond its reference's."""
    left_out = sorted(without(condition) - without(reference))
    added = sorted(without(reference) - without(condition))
    if condition.get("feed") and not reference.get("feed"):
        added.append("capture")
    return {"left_out": " ".join(left_out) or None, "added": " ".join(added) or None}


def observer_values(bundle: BundleData, traffic: Table) -> Values:
    """Metric → cell id → value, of cells that passed; what is not known is absent."""
    values: Values = defaultdict(dict)
    for cell in bundle.cells:
        if cell.verdict == "pass":
            for name, value in used_of(cell).items():
                values[name][cell.cell_id] = value
    lost: dict[str, float] = defaultdict(float)
    for row in traffic.rows:
        if row["window"] != "traffic" or row["verdict"] != "pass":
            continue
        cell_id = str(row["cell_id"])
        for quantile in ("p50", "p99"):
            if row[f"latency_{quantile}_ms"] is not None:
                name = f"latency_{row['direction']}_{quantile}_ms"
                values[name][cell_id] = number(row, f"latency_{quantile}_ms")
        if row["lost_count"] is not None:
            lost[cell_id] += number(row, "lost_count")
    values["lost_count"] = dict(lost)
    return values


def used_of(cell: Cell) -> dict[str, float]:
    """Per cent of one core between the two readings of the kernel's accounts."""
    document = read_optional_json(cell.directory / "observers.json")
    if not document:
        return {}
    before, after = document["before"], document["after"]
    wall_ns = int(after["t_ns"]) - int(before["t_ns"])

    def grown(*path: str) -> float | None:
        one, other = before, after
        for key in path:
            one, other = (one or {}).get(key), (other or {}).get(key)
        return None if one is None or other is None else float(other) - float(one)

    shares: dict[str, list[float | None]] = {
        "tunnel_cpu_drone_pct": [grown("ends", "drone", "tunnel_cpu_ns")],
        "tunnel_cpu_gcs_pct": [grown("ends", "gcs", "tunnel_cpu_ns")],
        "sampler_cpu_pct": [grown("ends", end, "sampler_cpu_ns") for end in ("drone", "gcs")],
        "view_cpu_pct": [grown("services", name, "cpu_ns") for name in VIEW],
    }
    busy_ms = grown("machine", "busy_ms")
    shares["machine_cpu_pct"] = [None if busy_ms is None else busy_ms * 1e6]
    return {
        name: 100 * sum(present(parts)) / wall_ns
        for name, parts in shares.items()
        if None not in parts and wall_ns > 0
    }
