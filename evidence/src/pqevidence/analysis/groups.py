"""Run-level statistics: by suite, by NIST level, by family; and the rekey-share model Φ(R).

The unit is the cell: each cell gives one number, the median of its cold handshakes. Only cells with verdict
``pass`` enter. Below three cells a group prints "insufficient" and carries no interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from pqbase.stats import quantile7, tail
from pqevidence.analysis.blocks import without_blocks
from pqevidence.analysis.estimate import ONE_SIDED, one_sided
from pqevidence.analysis.load import suite_facts
from pqevidence.analysis.stats import (
    BOOTSTRAP_RUNS_COUNT,
    INSUFFICIENT,
    MIN_RUNS_COUNT,
    log_interval,
    mad,
    mean,
    median,
    sd,
)
from pqevidence.analysis.table import Row, Table, number
from pqevidence.record.rings import weakest

#: Rekey intervals of the published curve, seconds.
REKEY_INTERVALS_S = (10, 30, 60, 120, 300, 600)
WALL = "drone_wall_median_ms"
#: cell id → the earlier run that measured it; None, or no entry: the bundle's own
Runs = Mapping[str, str | None]
ONE_RUN: Runs = {}
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

    units: what the interval is drawn from, one positive value each. Where one suite's repetitions show faults
    on one side there is none, and `interval_method` says so; below ten Student's t bears them.
    """
    struck = (
        unit == REPETITION and len(units) >= BOOTSTRAP_RUNS_COUNT and one_sided([list(map(math.log, units))])
    )
    interval = None if struck else log_interval(units, seed=seed)
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
        "interval_method": interval.method if interval else ONE_SIDED if struck else None,
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


def _group_statistics(members: list[Row], steady: Mapping[str, list[float]], seed: int, unit: str) -> Row:
    """unit: REPETITION for one suite; SUITE where suites are grouped: each gives the median of its `steady`
    values, because its repetitions share all that is the suite's own, and a fault in one of them is none of
    it."""
    values = [number(row, WALL) for row in members]
    mine = [steady[suite_id] for suite_id in dict.fromkeys(str(row["suite_id"]) for row in members)]
    if unit == REPETITION:
        (units,) = mine
    else:
        units = [middle for each in mine if (middle := median(each)) is not None]
    ring = weakest(str(row["ring"]) for row in members)
    return statistics_of(values, units, unit, len({row["suite_id"] for row in members}), ring, seed)


def by_suite_table(handshakes: Table, seed: int, runs: Runs = ONE_RUN) -> Table:
    """One row a suite and condition, over its repetitions; its interval without what moved whole blocks."""
    table = Table("by_suite", ("suite_id", "condition", *STAT_COLUMNS))
    groups = _grouped(handshakes.rows, lambda r: (str(r["suite_id"]), str(r["condition"])))
    steady = _steady(handshakes.rows, runs)
    for suite_id, condition in groups:
        members = groups[suite_id, condition]
        table.add(
            suite_id=str(suite_id),
            condition=str(condition),
            **_group_statistics(members, steady[str(condition)], seed, REPETITION),
        )
    return table


def _steady(rows: Iterable[Row], runs: Runs) -> dict[str, dict[str, list[float]]]:
    """Condition → suite → one cold handshake a block, ms, without what moved the block as a whole. A block is
    a repetition of one run."""
    walls: dict[str, dict[str, dict[tuple[str | None, int], float]]] = defaultdict(lambda: defaultdict(dict))
    for row in passing(rows):
        block = (runs.get(str(row["cell_id"])), int(str(row["repetition"])))
        walls[str(row["condition"])][str(row["suite_id"])][block] = number(row, WALL)
    return {condition: without_blocks(suites) for condition, suites in walls.items()}


def _has_level(row: Row) -> bool:
    facts = suite_facts(str(row["suite_id"]))
    return facts is not None and facts.has_level


def by_level_table(handshakes: Table, seed: int, runs: Runs = ONE_RUN) -> Table:
    """One row a NIST level and condition."""
    steady = _steady(handshakes.rows, runs)
    table = Table("by_level", ("level", "condition", *STAT_COLUMNS))
    rows = [row for row in handshakes.rows if _has_level(row)]
    groups = _grouped(rows, lambda r: (r["level"], str(r["condition"])))
    for key in sorted(groups, key=str):
        table.add(
            level=int(str(key[0])),
            condition=str(key[1]),
            **_group_statistics(groups[key], steady[str(key[-1])], seed, SUITE),
        )
    return table


def by_family_table(handshakes: Table, seed: int, runs: Runs = ONE_RUN) -> Table:
    """One row a family of KEMs, signatures or AEADs and condition."""
    steady = _steady(handshakes.rows, runs)
    table = Table("by_family", ("part", "family", "condition", *STAT_COLUMNS))
    for part, column in (("kem", "kem_family"), ("sig", "sig_family"), ("aead", "aead")):
        rows = [row for row in handshakes.rows if row[column] is not None]
        groups = _grouped(rows, lambda r, c=column: (str(r[c]), str(r["condition"])))  # type: ignore[misc]
        for key in groups:  # the registry's order, which the cells come in
            table.add(
                part=part,
                family=str(key[0]),
                condition=str(key[1]),
                **_group_statistics(groups[key], steady[str(key[-1])], seed, SUITE),
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
