"""Rekeys: what every cell measured, and per suite and interval the published model beside the measurement.

Φ(R) = T / (R + T) takes a rekey for a pause. What is measured stands beside it: the share of the session by
which pauses grew on the way (both ledgers), and the CPU of both tunnels over that of the same suite and block
without rekeys. Runs are the unit; nothing here says what an application noticed beyond that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pqbase.documents import Json, rows_of
from pqevidence.analysis.claims import NOT_DISTINGUISHABLE, verdict_of
from pqevidence.analysis.column import CELL, Column, names, pick
from pqevidence.analysis.conditions import (
    Contrast,
    Difference,
    conditions_of,
    contrasts_of,
    differences_of,
    null_of,
    pairs_of,
)
from pqevidence.analysis.estimate import Estimate, estimate
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import ROLES, BundleData, Cell
from pqevidence.analysis.metrics import Metric
from pqevidence.analysis.multiplicity import holm
from pqevidence.analysis.stats import INSUFFICIENT, log_interval, median
from pqevidence.analysis.table import Row, Table, Value, as_value

#: record field (category F) → column
RECORDED = {
    "rekey_attempts_count": Column("attempts_count", "rekeys started"),
    "rekey_success_count": Column("completed_count", "rekeys switched to", "completed", "n", numeric=True),
    "rekey_failure_count": Column("failed_count", "rekeys abandoned", "failed", "n", numeric=True),
    "rekey_coalesced_count": Column(
        "coalesced_count", "triggers that joined a rekey in flight", "coalesced", "n", numeric=True
    ),
    "rekey_interval_ms": Column(
        "interval_median_ms", "median time between rekeys", "interval", "ms", numeric=True
    ),
    "rekey_duration_ms": Column(
        "duration_median_ms", "median time of a rekey at the drone", "duration", "ms", numeric=True
    ),
    "rekey_share_model_pct": Column("phi_measured_interval_pct", "model Φ at the measured T and R"),
    "rekey_blackout_share_pct": Column("blackout_share_pct", "growth of gaps over the traffic window"),
    "rekey_blackout_duration_ms": Column(
        "blackout_max_ms", "largest growth of a gap on the way", "blackout", "ms", numeric=True
    ),
    "rekey_gap_ms": Column(
        "gap_max_ms", "largest gap between deliveries around a switch", "largest gap", "ms", numeric=True
    ),
    "rekey_send_gap_ms": Column(
        "send_gap_max_ms", "largest gap of the source then", "source's gap then", "ms", numeric=True
    ),
    "rekey_late_packets_count": Column(
        "late_count", "packets of the old epoch after the new", "late", "packets", numeric=True
    ),
    "rekey_lost_packets_count": Column(
        "lost_count", "packets lost around a switch", "lost", "packets", numeric=True
    ),
}
REKEYS, SWEEP = "rekeys", "rekey_sweep"
COLUMNS = (
    *CELL,
    Column("every_s", "interval asked for, s; empty for rekeys by an event"),
    *RECORDED.values(),
    Column("reason", "why a value is missing"),
)
INTERVAL = "95 % interval"
#: CPU is compared in points of one core; below half a point nothing is claimed unless A/A pairs say less
CPU = {
    role: Metric(f"cpu_{role}_points", f"CPU of the {role}", "points", "difference", 0.5) for role in ROLES
}


def _cpu_of(role: str) -> tuple[Column, ...]:
    return (
        Column(
            f"cpu_{role}_mean_points", f"CPU that rekeys cost, {role}", "CPU more", "points", numeric=True
        ),
        Column(f"cpu_{role}_low_points", "lower end of its interval", INTERVAL),
        Column(f"cpu_{role}_high_points", "upper end of its interval"),
        Column(f"cpu_{role}_p_holm", "p-value of no effect, by Holm", "p (Holm)", numeric=True),
        Column(f"cpu_{role}_floor_points", "what A/A pairs show", "noise floor", "points", numeric=True),
        Column(f"cpu_{role}_verdict", "more, less, not distinguishable or insufficient", "verdict"),
    )


CPU_COLUMNS = {role: _cpu_of(role) for role in ROLES}
SWEEP_COLUMNS = (
    *pick(CELL, "suite_id", "condition", "ring"),
    Column("every_s", "interval asked for", "R asked", "s", numeric=True),
    Column("n_cells", "cells that passed", "cells", "n", numeric=True),
    Column("completed_count", "rekeys of all of them", "rekeys", "n", numeric=True),
    Column("duration_median_ms", "median over the cells", "T, measured", "ms", numeric=True),
    Column("phi_model_pct", "model at the interval asked for", "Φ, model", "%", numeric=True),
    Column("phi_low_pct", "lower end of its interval", INTERVAL),
    Column("phi_high_pct", "upper end of its interval"),
    Column("blackout_share_pct", "median over the cells", "blackout, measured", "%", numeric=True),
    Column("blackout_low_pct", "lower end of the interval of its mean", INTERVAL),
    Column("blackout_high_pct", "upper end of it"),
    Column("blackout_max_ms", "longest of any cell", "longest blackout", "ms", numeric=True),
    Column("late_count", "packets late at a switch", "late", "packets", numeric=True),
    Column("lost_count", "packets lost around a switch", "lost", "packets", numeric=True),
    Column("excess_mean_pct", "measured share less the model's", "measured − model", "points", numeric=True),
    Column("excess_low_pct", "lower end of its interval", INTERVAL),
    Column("excess_high_pct", "upper end of its interval"),
    Column("blackout_verdict", "above or below the model, not distinguishable, insufficient", "verdict"),
    *CPU_COLUMNS["drone"],
    *CPU_COLUMNS["gcs"],
    Column("reference", "condition without rekeys that CPU is compared with", "against"),
    Column("n_pairs", "pairs of that comparison", "pairs", "n", numeric=True),
    Column("cells", "ids of the cells that passed", "first cell"),
)


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """rekeys where a condition asks for some, rekey_sweep where it names an interval; reads that of CPU."""
    rekeys = rekey_table(bundle)
    for table in (rekeys, sweep_table(bundle, rekeys, made["cpu"])):
        if table is not None:
            yield table


def asks_for_rekeys(condition: Json) -> bool:
    """Does a condition rekey on a schedule or by an event?"""
    return condition.get("rekey", "none") != "none" or any(
        event.get("kind") in ("rekey", "request_rekey") for event in rows_of(condition, "events", [])
    )


def rekey_table(bundle: BundleData) -> Table | None:
    """One row a cell whose condition asks for rekeys; None where no condition does."""
    asking = {str(c["name"]): c for c in conditions_of(bundle) if asks_for_rekeys(c)}
    if not asking:
        return None
    table = Table(REKEYS, names(COLUMNS))
    for cell in bundle.cells:
        if cell.condition not in asking:
            continue
        fields = {column.name: cell.value("F", name) or {} for name, column in RECORDED.items()}
        silent = [str(f["reason"]) for f in fields.values() if f and f.get("value") is None]
        table.add(
            **cell_columns(cell),
            every_s=_every_s(asking[cell.condition]),
            **{column: as_value(field.get("value")) for column, field in fields.items()},
            reason=str(cell.record.get("reason") or "; ".join(dict.fromkeys(silent))) or None,
        )
    return table


def _every_s(condition: Json) -> float | None:
    rekey = condition.get("rekey")
    return float(rekey["every_s"]) if isinstance(rekey, dict) else None


@dataclass(frozen=True)
class CpuEffect:
    """CPU with rekeys less CPU without, points of one core."""

    result: Estimate
    reference: str
    floor_points: float
    verdict: str
    p_holm: float | None


def sweep_table(bundle: BundleData, rekeys: Table | None, cpu: Table) -> Table | None:
    """One row a suite and condition with a rekey interval; None where there is none."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rekeys.rows if rekeys is not None else ():
        if row["every_s"] is not None:
            groups[str(row["suite_id"]), str(row["condition"])].append(row)
    if not groups:
        return None
    effects = _cpu_effects(bundle, cpu)
    table = Table(SWEEP, names(SWEEP_COLUMNS))
    for (suite_id, condition), members in sorted(
        groups.items(), key=lambda item: (item[0][0], -float(str(item[1][0]["every_s"])), item[0][1])
    ):
        rows = [row for row in members if row["verdict"] == "pass"]
        found = {role: effects.get((suite_id, condition, role)) for role in ROLES}
        told = next((e for e in found.values() if e is not None), None)
        table.add(
            suite_id=suite_id,
            condition=condition,
            ring=members[0]["ring"],
            every_s=members[0]["every_s"],
            n_cells=len(rows),
            completed_count=_total(rows, "completed_count"),
            duration_median_ms=median(_values(rows, "duration_median_ms")),
            **_model(rows, bundle.seed),
            **_blackout(rows, bundle.seed),
            blackout_max_ms=max(_values(rows, "blackout_max_ms"), default=None),
            late_count=_total(rows, "late_count"),
            lost_count=_total(rows, "lost_count"),
            **_against_model(rows, bundle.seed),
            **_cpu_columns(found),
            reference=told.reference if told else None,
            n_pairs=told.result.n if told else 0,
            cells=" ".join(str(row["cell_id"]) for row in rows),
        )
    return table


def _values(rows: list[Row], column: str) -> list[float]:
    return [float(str(row[column])) for row in rows if row[column] is not None]


def _total(rows: list[Row], column: str) -> int | None:
    values = _values(rows, column)
    return int(sum(values)) if values else None


def _phi_pct(row: Row) -> float | None:
    """The model at the interval asked for, with the median T of one cell."""
    if row["duration_median_ms"] is None or row["every_s"] is None:
        return None
    t_s, r_s = float(str(row["duration_median_ms"])) / 1e3, float(str(row["every_s"]))
    return 100.0 * t_s / (r_s + t_s)


def _model(rows: list[Row], seed: int) -> dict[str, Value]:
    """Φ over the cells, with the interval of its geometric mean: T varies from run to run."""
    values = [phi for row in rows if (phi := _phi_pct(row)) is not None]
    interval = log_interval(values, seed=seed)
    return {
        "phi_model_pct": median(values),
        "phi_low_pct": interval.low if interval else None,
        "phi_high_pct": interval.high if interval else None,
    }


def _blackout(rows: list[Row], seed: int) -> dict[str, Value]:
    """Measured share over the cells, with the interval of its mean."""
    values = _values(rows, "blackout_share_pct")
    result = estimate(values, seed=seed)
    return {
        "blackout_share_pct": median(values),
        "blackout_low_pct": result.low,
        "blackout_high_pct": result.high,
    }


def _against_model(rows: list[Row], seed: int) -> dict[str, Value]:
    """Measured share less the model's, cell by cell: what the model claims beyond what happened."""
    differences = [
        measured - model
        for row in rows
        for measured in _values([row], "blackout_share_pct")
        if (model := _phi_pct(row)) is not None
    ]
    result = estimate(differences, seed=seed)
    if result.low is None or result.high is None:
        word = INSUFFICIENT
    elif result.low > 0.0 or result.high < 0.0:
        word = "above the model" if result.low > 0.0 else "below the model"
    else:
        word = NOT_DISTINGUISHABLE
    return {
        "excess_mean_pct": result.mean,
        "excess_low_pct": result.low,
        "excess_high_pct": result.high,
        "blackout_verdict": word,
    }


def _cpu_columns(found: dict[str, CpuEffect | None]) -> dict[str, Value]:
    columns: dict[str, Value] = {}
    for role, effect in found.items():
        if effect is None:
            columns[f"cpu_{role}_verdict"] = INSUFFICIENT
            continue
        columns |= {
            f"cpu_{role}_mean_points": effect.result.mean,
            f"cpu_{role}_low_points": effect.result.low,
            f"cpu_{role}_high_points": effect.result.high,
            f"cpu_{role}_p_holm": effect.p_holm,
            f"cpu_{role}_floor_points": effect.floor_points,
            f"cpu_{role}_verdict": effect.verdict,
        }
    return columns


def _cpu_effects(bundle: BundleData, cpu: Table) -> dict[tuple[str, str, str], CpuEffect]:
    """(suite, condition, role) → effect against the first condition, which must not rekey itself; Holm over
    all suites and conditions of one role."""
    conditions = conditions_of(bundle)
    by_name = {str(c["name"]): c for c in conditions}
    contrasts = contrasts_of(conditions)
    useful = [
        c
        for c in contrasts
        if not c.twins and asks_for_rekeys(by_name[c.condition]) and not asks_for_rekeys(by_name[c.reference])
    ]
    found: dict[tuple[str, str, str], CpuEffect] = {}
    for role in ROLES:
        values = {
            str(row["cell_id"]): float(str(row["process_mean_pct"]))
            for row in cpu.rows
            if row["host"] == role and row["cpu_valid"] is True and row["process_mean_pct"] is not None
        }
        null = [d for c in contrasts if c.twins for d in _differences(bundle.cells, c, role, values)]
        shown = null_of(null, CPU[role])
        groups: list[tuple[str, Contrast, list[float]]] = []
        for contrast in useful:
            by_suite: dict[str, list[float]] = defaultdict(list)
            for difference in _differences(bundle.cells, contrast, role, values):
                by_suite[difference.pair.suite_id].append(difference.value)
            groups += [(suite, contrast, differences) for suite, differences in by_suite.items()]
        # the size of the family sets how many resamples reach far enough into the tails for a claim
        results = [estimate(members, seed=bundle.seed, tests=len(groups)) for _, _, members in groups]
        corrected = holm([result.p_value for result in results])
        for (suite, contrast, _), result, p_holm in zip(groups, results, corrected, strict=True):
            word = {"regressed": "more", "improved": "less"}
            floor = shown.floor([0] * result.n)
            verdict = verdict_of(result, p_holm, floor)
            found[suite, contrast.condition, role] = CpuEffect(
                result, contrast.reference, floor.value, word.get(verdict, verdict), p_holm
            )
    return found


def _differences(
    cells: list[Cell], contrast: Contrast, role: str, values: dict[str, float]
) -> list[Difference]:
    return differences_of(pairs_of(cells, contrast), CPU[role], values)
