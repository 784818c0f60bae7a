"""What observing costs: cells with every observer on against cells in which one of them stood still.

From the kernel's accounts that the controller read around the traffic window (observers.json) and, where
ledgers were kept, from their delays. Effects are differences in the metric's own unit, condition minus
reference, pair by pair within blocks; A/A twins give the noise floor. See docs/COMPARISONS.md for both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pqbase.documents import Json, number_of, part_of, whole_of
from pqevidence.analysis.claims import BLOCK, adjusted, seen_from, tested_scopes, verdict_of
from pqevidence.analysis.column import Column, names
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
from pqevidence.analysis.load import BundleData, Cell, read_optional_json
from pqevidence.analysis.metrics import Metric, Values
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table, number, present
from pqevidence.record.rings import weakest
from pqevidence.scenario.conditions import observers_vary, without

NAME = "observer_effect"
COLUMNS = (
    Column("condition", "condition in which an observer is left out or added", "condition"),
    Column("left_out", "observers that stood still in it and not in the reference", "without"),
    Column("added", "observers that it has beyond the reference's", "with"),
    Column("reference", "condition that it is compared with"),
    Column("kind", "A/B, or A/A where both are the same condition twice", "kind"),
    Column("metric", "what was measured, by name"),
    Column("label", "the same in words", "metric"),
    Column("unit", "unit of medians, effects and floor", "unit"),
    Column("n_pairs", "pairs of cells in the same block", "n", "pairs", numeric=True),
    Column("n_suites", "suites among the pairs"),
    Column("reference_median", "median over the reference's cells", "reference", "median", numeric=True),
    Column("condition_median", "median over the condition's cells", "condition", "median", numeric=True),
    Column("mean_effect", "mean of condition minus reference, pair by pair", "effect", "mean", numeric=True),
    Column("low_effect", "lower end of its interval", "95 % interval"),
    Column("high_effect", "upper end of its interval"),
    Column("interval_level", "level of the interval"),
    Column("method", "how interval and p-value were made, or why there is none"),
    Column("p_value", "p-value of no effect"),
    Column("p_holm", "the same, corrected by Holm over the family", "p (Holm)", numeric=True),
    Column("family_count", "tests in the family"),
    Column("floor_effect", "effect that A/A pairs show by chance", "noise floor", numeric=True),
    Column("floor_pairs", "A/A pairs behind the floor"),
    Column("floor_method", "measured, or assumed while there are too few", "floor from"),
    Column("visible_effect", "smallest effect that would have been seen", "seen from", numeric=True),
    Column("unit_of_inference", "what counts as one observation"),
    Column("verdict", "improved, regressed, not distinguishable or insufficient", "verdict"),
    Column("reason", "why there is no interval"),
    Column("ring", "weakest ring among the pairs", "ring"),
    Column("cells", "ids of the cells behind the row"),
)
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


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """observer_effect where a condition leaves an observer out; it reads the table of traffic."""
    if observers_vary({"conditions": conditions_of(bundle)}):
        yield observer_table(bundle, made["traffic"])


def observer_table(bundle: BundleData, traffic: Table) -> Table:
    """One row a condition and metric."""
    conditions = conditions_of(bundle)
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
    table = Table(NAME, names(COLUMNS))
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
                metric=metric.name,
                label=metric.label,
                unit=metric.unit,
                n_pairs=result.n,
                n_suites=len({pair.suite_id for pair in pairs}),
                reference_median=median(present(own.get(pair.reference) for pair in pairs)),
                condition_median=median(present(own.get(pair.condition) for pair in pairs)),
                mean_effect=result.mean,
                low_effect=result.low,
                high_effect=result.high,
                interval_level=None if result.low is None else LEVEL,
                method=result.method,
                p_value=result.p_value,
                p_holm=corrected.holm,
                family_count=corrected.count,
                floor_effect=floor.value,
                floor_pairs=floor.pairs,
                floor_method=floor.method,
                visible_effect=seen_from(result, floor, corrected.count),
                unit_of_inference=BLOCK,
                verdict=verdict_of(result, corrected.holm, floor),
                reason=result.method if result.low is None else None,
                ring=weakest(pair.ring for pair in pairs),
                cells=" ".join(sorted({c for pair in pairs for c in (pair.reference, pair.condition)})),
            )
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
    before, after = part_of(document, "before"), part_of(document, "after")
    wall_ns = whole_of(after, "t_ns") - whole_of(before, "t_ns")

    def grown(*path: str) -> float | None:
        one, other = before, after
        *inside, last = path
        for key in inside:
            one, other = part_of(one, key, {}), part_of(other, key, {})
        if one.get(last) is None or other.get(last) is None:
            return None
        return number_of(other, last) - number_of(one, last)

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
