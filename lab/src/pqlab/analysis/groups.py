"""Run-level statistics: by suite, by NIST level, by family; and the rekey-share model Φ(R).

The unit is the cell: each cell gives one number, the median of its cold handshakes. Only cells with verdict
``pass`` enter. Below three cells a group prints "insufficient" and carries no interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from pqbase.stats import quantile7, tail
from pqlab.analysis.load import suite_facts
from pqlab.analysis.stats import (
    INSUFFICIENT,
    MIN_RUNS_COUNT,
    log_interval,
    mad,
    mean,
    median,
    sd,
)
from pqlab.analysis.table import Row, Table, number

#: Rekey intervals of the published curve, seconds.
REKEY_INTERVALS_S = (10, 30, 60, 120, 300, 600)
WALL = "drone_wall_median_ms"
#: What n of an interval counts.
REPETITION, SUITE = "repetition", "suite"
STAT_COLUMNS = (
    "ring", "n_cells", "n_suites", "status", "median_ms", "mad_ms", "q1_ms", "q3_ms", "mean_ms", "sd_ms",
    "p95_ms", "min_ms", "max_ms", "geomean_ms", "interval_low_ms", "interval_high_ms", "interval_method",
    "unit_of_inference", "n_units",
)  # fmt: skip


def passing(rows: Iterable[Row]) -> list[Row]:
    """Rows of cells that passed and have a handshake."""
    return [row for row in rows if row["verdict"] == "pass" and row[WALL] is not None]


def statistics_of(
    values: list[float], units: list[float], unit: str, suites: int, ring: str, seed: int
) -> Row:
    """The statistics columns of one group of run-level values, ms; below three only median and range.

    units: what the interval is drawn from, one positive value each.
    """
    interval = log_interval(units, seed=seed)
    enough = len(values) >= MIN_RUNS_COUNT
    return {
        "ring": ring,
        "n_cells": len(values),
        "n_suites": suites,
        "status": "ok" if enough else INSUFFICIENT,
        "median_ms": median(values),
        "mad_ms": mad(values) if enough else None,
        "q1_ms": quantile7(values, 0.25) if enough else None,
        "q3_ms": quantile7(values, 0.75) if enough else None,
        "mean_ms": mean(values) if enough else None,
        "sd_ms": sd(values) if enough else None,
        "p95_ms": tail(values, 0.95),
        "min_ms": min(values, default=None),
        "max_ms": max(values, default=None),
        "geomean_ms": interval.estimate if interval else None,
        "interval_low_ms": interval.low if interval else None,
        "interval_high_ms": interval.high if interval else None,
        "interval_method": interval.method if interval else None,
        "unit_of_inference": unit,
        "n_units": len(units),
    }


def _grouped(
    rows: Iterable[Row], key: Callable[[Row], tuple[Hashable, ...]]
) -> dict[tuple[Hashable, ...], list[Row]]:
    groups: dict[tuple[Hashable, ...], list[Row]] = defaultdict(list)
    for row in passing(rows):
        groups[key(row)].append(row)
    return groups


def _group_statistics(members: list[Row], seed: int, unit: str) -> Row:
    """unit: REPETITION for one suite; SUITE where suites are grouped, each with one value."""
    values = [number(row, WALL) for row in members]
    units = values if unit == REPETITION else _suite_means(members)
    rings = sorted({str(row["ring"]) for row in members}, key=("sim", "lab", "hardware").index)
    return statistics_of(values, units, unit, len({row["suite_id"] for row in members}), rings[0], seed)


def _suite_means(members: list[Row]) -> list[float]:
    """Geometric mean of each suite's cells, ms: its repetitions share all that is the suite's own."""
    suites: dict[str, list[float]] = defaultdict(list)
    for row in members:
        suites[str(row["suite_id"])].append(number(row, WALL))
    return [math.exp(math.fsum(map(math.log, values)) / len(values)) for values in suites.values()]


def by_suite_table(handshakes: Table, seed: int) -> Table:
    """One row a suite and condition, over its repetitions."""
    table = Table("by_suite", ("suite_id", "condition", *STAT_COLUMNS))
    groups = _grouped(handshakes.rows, lambda r: (str(r["suite_id"]), str(r["condition"])))
    for suite_id, condition in groups:
        table.add(
            suite_id=str(suite_id),
            condition=str(condition),
            **_group_statistics(groups[suite_id, condition], seed, REPETITION),
        )
    return table


def _has_level(row: Row) -> bool:
    facts = suite_facts(str(row["suite_id"]))
    return facts is not None and facts.has_level


def by_level_table(handshakes: Table, seed: int) -> Table:
    """One row a NIST level and condition."""
    table = Table("by_level", ("level", "condition", *STAT_COLUMNS))
    rows = [row for row in handshakes.rows if _has_level(row)]
    groups = _grouped(rows, lambda r: (r["level"], str(r["condition"])))
    for key in sorted(groups, key=str):
        table.add(
            level=int(str(key[0])), condition=str(key[1]), **_group_statistics(groups[key], seed, SUITE)
        )
    return table


def by_family_table(handshakes: Table, seed: int) -> Table:
    """One row a family of KEMs, signatures or AEADs and condition."""
    table = Table("by_family", ("part", "family", "condition", *STAT_COLUMNS))
    for part, column in (("kem", "kem_family"), ("sig", "sig_family"), ("aead", "aead")):
        rows = [row for row in handshakes.rows if row[column] is not None]
        groups = _grouped(rows, lambda r, c=column: (str(r[c]), str(r["condition"])))  # type: ignore[misc]
        for key in groups:  # the registry's order, which the cells come in
            table.add(
                part=part,
                family=str(key[0]),
                condition=str(key[1]),
                **_group_statistics(groups[key], seed, SUITE),
            )
    return table


def phi_table(by_suite: Table) -> Table:
    """Share of time a suite would spend in handshakes: Φ(R) = T / (R + T), percent; a model, not measured."""
    table = Table(
        "phi",
        (
            "suite_id",
            "condition",
            "ring",
            "kind",
            "n_cells",
            "t_median_ms",
            *(f"phi_{r}s_pct" for r in REKEY_INTERVALS_S),
        ),
    )
    for row in by_suite.rows:
        t_s = number(row, "median_ms") / 1e3
        table.add(
            suite_id=row["suite_id"],
            condition=row["condition"],
            ring=row["ring"],
            kind="model: T/(R+T) from the measured median T",
            n_cells=row["n_cells"],
            t_median_ms=row["median_ms"],
            **{f"phi_{r}s_pct": 100.0 * t_s / (r + t_s) for r in REKEY_INTERVALS_S},
        )
    return table
