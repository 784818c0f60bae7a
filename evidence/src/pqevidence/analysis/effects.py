"""Paired effects between suites that differ in one part only, each with a verdict.

A pair is two cells of one condition and repetition whose suites agree in level and in the two other parts.
Effects are ratios of drone walls. The suite is the unit: the median of its repetitions is taken first,
because what stays with a suite (layout, sizes, its other parts) stays in every one of them. A verdict needs
at least three pairs of suites, an interval (simultaneous over all comparisons of the report) that leaves out
1, and an effect beyond the noise floor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pqevidence.analysis.estimate import Estimate, estimate
from pqevidence.analysis.floor import ASSUMED, Floor, Null, cost_class, visible
from pqevidence.analysis.groups import ONE_RUN, SUITE, WALL, Runs, passing
from pqevidence.analysis.stats import INSUFFICIENT, MIN_RUNS_COUNT, median, simultaneous_level
from pqevidence.analysis.table import Row, Table, number
from pqevidence.limits import ASSUMED_FLOOR_RATIO as ASSUMED_FLOOR_RATIO
from pqevidence.record.rings import weakest

DISTINGUISHABLE = "distinguishable"
NOT_DISTINGUISHABLE = "not distinguishable"
#: part → (family column, columns that must agree, reference family)
PARTS = {
    "kem": ("kem_family", ("level", "sig", "aead"), "ML-KEM"),
    "sig": ("sig_family", ("level", "kem", "aead"), "ML-DSA"),
    "aead": ("aead", ("level", "kem", "sig"), "AES-256-GCM"),
}


def null_of(rows: list[Row], runs: Runs = ONE_RUN) -> Null:
    """Steps between repetitions of the same suite, condition and run, by class of cost (log ratios)."""
    series: dict[tuple[object, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in passing(rows):
        of_one = (row["suite_id"], row["condition"], runs.get(str(row["cell_id"])))
        series[of_one].append((int(str(row["repetition"])), number(row, WALL)))
    steps = [
        (math.log(after / before), cost_class(before))
        for values in series.values()
        for (_, before), (_, after) in pairwise(sorted(values))
        if before > 0 and after > 0
    ]
    return Null(steps, math.log(ASSUMED_FLOOR_RATIO))


def effects_table(handshakes: Table, seed: int, runs: Runs = ONE_RUN) -> Table:
    """One row a comparison: family against the reference family of its part. Cells of different `runs` are no
    pair: what lies between the runs would be taken for an effect."""
    table = Table(
        "effects",
        (
            "part",
            "family",
            "reference",
            "ring",
            "n_pairs",
            "n_suites",
            "unit_of_inference",
            "ratio",
            "low_ratio",
            "high_ratio",
            "interval_level",
            "method",
            "floor_ratio",
            "floor_pairs",
            "floor_method",
            "visible_ratio",
            "verdict",
            "cells",
        ),
    )
    null = null_of(handshakes.rows, runs)
    rows = passing(handshakes.rows)
    comparisons = [
        (part, family, _pairs(rows, part, family, runs))
        for part, (column, _, reference) in PARTS.items()
        for family in sorted({str(r[column]) for r in rows if r[column] is not None} - {reference})
    ]
    by_suite = [list(_suite_medians(pairs).values()) for _, _, pairs in comparisons]
    tests = max(sum(len(means) >= MIN_RUNS_COUNT for means in by_suite), 1)
    level = simultaneous_level(tests)
    for (part, family, pairs), means in zip(comparisons, by_suite, strict=True):
        if not pairs:
            continue
        result = estimate(means, seed=seed, tests=tests, level=level)
        floor = null.floor([cost_class(number(a, WALL)) for a, _ in pairs])
        known = result.low is not None
        table.add(
            part=part,
            family=family,
            reference=PARTS[part][2],
            ring=weakest(str(r["ring"]) for pair in pairs for r in pair),
            n_pairs=len(pairs),
            n_suites=result.n,
            unit_of_inference=SUITE,
            ratio=math.exp(result.mean) if known and result.mean is not None else None,
            low_ratio=None if result.low is None else math.exp(result.low),
            high_ratio=None if result.high is None else math.exp(result.high),
            interval_level=level if known else None,
            method=result.method if known else None,
            floor_ratio=math.exp(floor.value),
            floor_pairs=floor.pairs,
            floor_method=floor.method,
            visible_ratio=_visible(result, floor, tests),
            verdict=_verdict(result, floor),
            cells=" ".join(sorted({str(r["cell_id"]) for pair in pairs for r in pair})),
        )
    return table


@dataclass(frozen=True)
class FamilyComparison:
    """A family beside the reference of its part: one log ratio a pair of suites (`suite suite`), and the
    class of cost of every pair of cells."""

    part: str
    family: str
    reference: str
    by_suites: dict[str, float]
    costs: list[int]


def family_comparisons(handshakes: Iterable[Row], runs: Runs = ONE_RUN) -> list[FamilyComparison]:
    """Every comparison that some pair of cells among these rows carries; as `effects_table` pairs them."""
    rows = passing(handshakes)
    found = []
    for part, (column, _, reference) in PARTS.items():
        for family in sorted({str(r[column]) for r in rows if r[column] is not None} - {reference}):
            if pairs := _pairs(rows, part, family, runs):
                costs = [cost_class(number(a, WALL)) for a, _ in pairs]
                found.append(FamilyComparison(part, family, reference, _suite_medians(pairs), costs))
    return found


def _suite_medians(pairs: list[tuple[Row, Row]]) -> dict[str, float]:
    """One value a pair of suites: the median log ratio over conditions and repetitions. What stays with a
    suite stays in all its repetitions, so these are no further witnesses; a fault in one of them is none
    either."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for a, b in pairs:
        ratio = math.log(number(b, WALL) / number(a, WALL))
        ratios[f"{a['suite_id']} {b['suite_id']}"].append(ratio)
    return {name: middle for name, values in ratios.items() if (middle := median(values)) is not None}


def _verdict(result: Estimate, floor: Floor) -> str:
    if result.mean is None or result.low is None or result.high is None:
        return INSUFFICIENT
    # A measured floor bounds the estimate; an assumed one must stay outside the whole interval.
    nearest = result.mean if floor.method != ASSUMED else min(abs(result.low), abs(result.high))
    one_sided = result.low > 0.0 or result.high < 0.0
    return DISTINGUISHABLE if one_sided and abs(nearest) > floor.value else NOT_DISTINGUISHABLE


def _visible(result: Estimate, floor: Floor, tests: int) -> float | None:
    found = None if result.low is None else visible(floor, result.n, result.spread, tests)
    return None if found is None else math.exp(min(found, 50.0))


def _pairs(rows: list[Row], part: str, family: str, runs: Runs) -> list[tuple[Row, Row]]:
    """(reference cell, cell of the family) of one run that agree in everything else."""
    column, agree, reference = PARTS[part]

    def key(row: Row) -> tuple[object, ...]:
        run = runs.get(str(row["cell_id"]))
        return (run, row["condition"], row["repetition"], *(row[c] for c in agree))

    references = {key(row): row for row in rows if row[column] == reference}
    return [(references[key(row)], row) for row in rows if row[column] == family and key(row) in references]
