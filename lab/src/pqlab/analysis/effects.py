"""Paired effects between suites that differ in one part only, each with a verdict.

A pair is two cells of one condition and repetition whose suites agree in level and in the two other parts.
Effects are ratios of drone walls. A verdict needs at least three pairs, an interval (simultaneous over all
comparisons of the report) that leaves out 1, and an effect beyond the noise floor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from pqlab.analysis.groups import WALL, passing
from pqlab.analysis.stats import INSUFFICIENT, MIN_RUNS_COUNT, log_interval, simultaneous_level
from pqlab.analysis.table import Row, Table, number
from pqtunnel.quantile import quantile7

#: Pairs of equal cells needed before their spread counts as the noise floor.
MIN_FLOOR_PAIRS_COUNT = 10
#: Where no noise floor could be measured, only effects beyond this ratio are stated.
ASSUMED_FLOOR_RATIO = 1.10
DISTINGUISHABLE = "distinguishable"
NOT_DISTINGUISHABLE = "not distinguishable"
#: part → (family column, columns that must agree, reference family)
PARTS = {
    "kem": ("kem_family", ("level", "sig", "aead"), "ML-KEM"),
    "sig": ("sig_family", ("level", "kem", "aead"), "ML-DSA"),
    "aead": ("aead", ("level", "kem", "sig"), "AES-256-GCM"),
}


#: cell id → the earlier run that measured it; None, or no entry: the bundle's own
Runs = Mapping[str, str | None]
_ONE_RUN: Runs = {}


def noise_floor(rows: list[Row], runs: Runs = _ONE_RUN) -> tuple[float, int, str]:
    """(ratio, pairs, method): 95th percentile of the ratio between repetitions of the same suite and run."""
    series: dict[tuple[object, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in passing(rows):
        of_one = (row["suite_id"], row["condition"], runs.get(str(row["cell_id"])))
        series[of_one].append((int(str(row["repetition"])), number(row, WALL)))
    gaps = [
        abs(math.log(after / before))
        for values in series.values()
        for (_, before), (_, after) in pairwise(sorted(values))
        if before > 0 and after > 0
    ]
    if len(gaps) < MIN_FLOOR_PAIRS_COUNT:
        return ASSUMED_FLOOR_RATIO, len(gaps), "assumed"
    worst = quantile7(gaps, 0.95)
    assert worst is not None
    return math.exp(worst), len(gaps), "measured"


def effects_table(handshakes: Table, seed: int, runs: Runs = _ONE_RUN) -> Table:
    """One row a comparison: family against the reference family of its part. Cells of different `runs` are no
    pair: what lies between the runs would be taken for an effect."""
    table = Table(
        "effects",
        (
            "part", "family", "reference", "ring", "n_pairs", "ratio", "low_ratio", "high_ratio",
            "interval_level",
            "method", "floor_ratio", "floor_pairs", "floor_method", "verdict", "cells",
        ),
    )  # fmt: skip
    floor_ratio, floor_pairs, floor_method = noise_floor(handshakes.rows, runs)
    rows = passing(handshakes.rows)
    comparisons = [
        (part, family, _pairs(rows, part, family, runs))
        for part, (column, _, reference) in PARTS.items()
        for family in sorted({str(r[column]) for r in rows if r[column] is not None} - {reference})
    ]
    testable = [c for c in comparisons if len(c[2]) >= MIN_RUNS_COUNT]
    level = simultaneous_level(max(len(testable), 1))
    for part, family, pairs in comparisons:
        if not pairs:
            continue
        ratios = [number(b, WALL) / number(a, WALL) for a, b in pairs]
        interval = log_interval(ratios, level=level, seed=seed)
        if interval is None:
            verdict = INSUFFICIENT
        else:
            excludes_one = interval.low > 1.0 or interval.high < 1.0
            # A measured floor bounds the estimate; an assumed one must stay outside the whole interval.
            nearest = (
                interval.estimate
                if floor_method == "measured"
                else min((interval.low, interval.high), key=lambda bound: abs(math.log(bound)))
            )
            beyond_floor = abs(math.log(nearest)) > math.log(floor_ratio)
            verdict = DISTINGUISHABLE if excludes_one and beyond_floor else NOT_DISTINGUISHABLE
        table.add(
            part=part,
            family=family,
            reference=PARTS[part][2],
            ring=min((str(r["ring"]) for pair in pairs for r in pair), key=("sim", "lab", "hardware").index),
            n_pairs=len(pairs),
            ratio=interval.estimate if interval else None,
            low_ratio=interval.low if interval else None,
            high_ratio=interval.high if interval else None,
            interval_level=level if interval else None,
            method=interval.method if interval else None,
            floor_ratio=floor_ratio,
            floor_pairs=floor_pairs,
            floor_method=floor_method,
            verdict=verdict,
            cells=" ".join(sorted({str(r["cell_id"]) for pair in pairs for r in pair})),
        )
    return table


def _pairs(rows: list[Row], part: str, family: str, runs: Runs) -> list[tuple[Row, Row]]:
    """(reference cell, cell of the family) of one run that agree in everything else."""
    column, agree, reference = PARTS[part]

    def key(row: Row) -> tuple[object, ...]:
        run = runs.get(str(row["cell_id"]))
        return (run, row["condition"], row["repetition"], *(row[c] for c in agree))

    references = {key(row): row for row in rows if row[column] == reference}
    return [(references[key(row)], row) for row in rows if row[column] == family and key(row) in references]
