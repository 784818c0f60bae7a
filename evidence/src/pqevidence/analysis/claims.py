"""The table of condition effects: one row a contrast, metric and scope, with its verdict.

Families: the suites of one contrast and metric; and, apart, the means over all suites of one contrast over
its metrics. A claim needs Holm's p ≤ 0.05 in its family and an effect beyond the noise floor. q-values are a
screen and decide nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pqevidence.analysis.conditions import (
    Contrast,
    Difference,
    conditions_of,
    contrasts_of,
    costs_of,
    differences_of,
    equal_cells,
    null_of,
    pairs_of,
)
from pqevidence.analysis.estimate import (
    LEVEL,
    NO_SPREAD,
    Estimate,
    estimate,
    hangs_on_outliers,
    one_sided,
    without_interval,
)
from pqevidence.analysis.floor import ASSUMED, Floor, visible
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.metrics import METRICS, Metric, cell_values
from pqevidence.analysis.multiplicity import benjamini_hochberg, holm
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import Table, Value
from pqevidence.record.rings import weakest

ALPHA = 0.05
IMPROVED, REGRESSED, NOT_DISTINGUISHABLE = "improved", "regressed", "not distinguishable"
#: Scope of a row that is about the mean over all suites of a contrast.
ALL_SUITES = "all suites"
#: What n counts, and so what an interval speaks of.
BLOCK, PAIR = "block", "pair of cells in a block"
NAME = "condition_effects"
COLUMNS = (
    "condition", "reference", "kind", "metric", "unit", "scale", "scope", "ring", "n_pairs", "n_suites",
    "mean_effect", "robust_effect", "low_effect", "high_effect", "interval_level", "method",
    "p_value", "p_holm", "q_bh", "family_count",
    "floor_effect", "floor_pairs", "floor_method", "visible_effect", "unit_of_inference", "verdict", "reason",
    "outlier_count", "outlier_cells", "position_gap_mean", "cells",
)  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """One scope's differences with their estimate."""

    scope: str
    differences: Sequence[Difference]
    result: Estimate


def condition_effects_table(
    bundle: BundleData, handshakes: Table, traffic: Table, cpu: Table
) -> Table | None:
    """All contrasts of the bundle; None where it has one condition, and so nothing to compare."""
    contrasts = contrasts_of(conditions_of(bundle))
    if not contrasts:
        return None
    values = cell_values(bundle, handshakes, traffic, cpu)
    pairs = {contrast: pairs_of(bundle.cells, contrast) for contrast in contrasts}
    table = Table(NAME, COLUMNS)
    nulls = {}
    for metric in METRICS:
        null, _ = equal_cells(bundle, metric, values[metric.name])
        nulls[metric.name] = null_of(null, metric)
    for contrast in contrasts:
        by_metric: list[tuple[Metric, list[Tested]]] = []
        for metric in METRICS:
            found = differences_of(pairs[contrast], metric, values[metric.name])
            if found:
                by_metric.append((metric, tested_scopes(found, bundle.seed, len(METRICS))))
        # every first entry is the mean over all suites: those are one family over the metrics
        overall = adjusted([tests[0] for _, tests in by_metric])
        for (metric, tests), first in zip(by_metric, overall, strict=True):
            rest = adjusted(tests[1:])
            for test, corrected in zip(tests, [first, *rest], strict=True):
                _add(
                    table,
                    contrast,
                    metric,
                    test,
                    corrected,
                    nulls[metric.name].floor(costs_of(test.differences)),
                )
    return table


def tested_scopes(differences: Sequence[Difference], seed: int, metrics_count: int) -> list[Tested]:
    """The mean over all suites first, then suite by suite.

    The hierarchy is block ⊃ suite: the mean over the suites of a block is one value, blocks are drawn with
    all they hold, and n counts blocks. Suites are the list under study, no sample of one, and are not drawn
    (Davison and Hinkley 1997, §3.8).
    """
    blocks: dict[int, list[float]] = defaultdict(list)
    suites: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        blocks[difference.pair.block].append(difference.value)
        suites[difference.pair.suite_id].append(difference)
    means = [math.fsum(blocks[block]) / len(blocks[block]) for block in sorted(blocks)]
    found = [Tested(ALL_SUITES, differences, estimate(means, seed=seed, tests=metrics_count))]
    for suite_id, members in suites.items():
        result = estimate([d.value for d in members], seed=seed, tests=len(suites))
        found.append(Tested(suite_id, members, result))
    groups = [[d.value for d in members] for members in suites.values()]
    if one_sided(groups):
        # seen over all suites, because three pairs of one cannot show it
        return [replace(test, result=without_interval(test.result)) for test in found]
    if hangs_on_outliers(groups, found[0].result):
        found[0] = replace(found[0], result=without_interval(found[0].result))
    return found


@dataclass(frozen=True)
class Adjusted:
    """p-values of a test within its family of `count` tests that could be made."""

    holm: float | None
    bh: float | None
    count: int


def adjusted(tests: Sequence[Tested]) -> list[Adjusted]:
    """Both corrections over one family."""
    raw = [test.result.p_value for test in tests]
    count = sum(1 for p in raw if p is not None)
    return [Adjusted(h, b, count) for h, b in zip(holm(raw), benjamini_hochberg(raw), strict=True)]


def verdict_of(result: Estimate, p_holm: float | None, floor: Floor) -> str:
    """What may be said: less is better for every metric."""
    if result.mean is None or result.low is None or result.high is None or p_holm is None:
        return NOT_DISTINGUISHABLE if result.method == NO_SPREAD and result.mean == 0.0 else INSUFFICIENT
    # a measured floor bounds the estimate; an assumed one must stay outside the whole interval
    nearest = result.mean if floor.method != ASSUMED else min(abs(result.low), abs(result.high))
    one_sided = result.low > 0.0 or result.high < 0.0
    if p_holm > ALPHA or not one_sided or abs(nearest) <= floor.value:
        return NOT_DISTINGUISHABLE
    return REGRESSED if result.mean > 0.0 else IMPROVED


def seen_from(result: Estimate, floor: Floor, tests: int) -> float | None:
    """Least effect that would have been claimed in 80 % of such campaigns; None where nothing is inferred."""
    return None if result.low is None else visible(floor, result.n, result.spread, max(tests, 1))


def effect_values(metric: Metric, test: Tested, corrected: Adjusted, floor: Floor) -> dict[str, Value]:
    """Effect, interval, corrected p and verdict of one test, as the columns of any table of effects."""
    result, pairs = test.result, [difference.pair for difference in test.differences]

    def shown(value: float | None) -> Value:
        if value is None:
            return None
        return math.exp(value) if metric.scale == "ratio" else value

    overall = test.scope == ALL_SUITES
    flagged = [] if overall else [pairs[i].condition for i in result.outliers]
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "scale": metric.scale,
        "scope": test.scope,
        "ring": weakest(pair.ring for pair in pairs),
        "n_pairs": result.n,
        "n_suites": len({pair.suite_id for pair in pairs}),
        "mean_effect": shown(result.mean),
        "robust_effect": shown(result.hodges_lehmann),
        "low_effect": shown(result.low),
        "high_effect": shown(result.high),
        "interval_level": None if result.low is None else LEVEL,
        "method": result.method,
        "p_value": result.p_value,
        "p_holm": corrected.holm,
        "q_bh": corrected.bh,
        "family_count": corrected.count,
        "floor_effect": shown(floor.value),
        "floor_pairs": floor.pairs,
        "floor_method": floor.method,
        "visible_effect": shown(seen_from(result, floor, corrected.count)),
        "unit_of_inference": BLOCK if overall else PAIR,
        "verdict": verdict_of(result, corrected.holm, floor),
        "reason": result.method if result.low is None else None,
        "outlier_count": len(result.outliers),
        "outlier_cells": " ".join(flagged),
    }


def _add(
    table: Table, contrast: Contrast, metric: Metric, test: Tested, corrected: Adjusted, floor: Floor
) -> None:
    pairs = [difference.pair for difference in test.differences]
    table.add(
        condition=contrast.condition,
        reference=contrast.reference,
        kind="A/A" if contrast.twins else "A/B",
        position_gap_mean=math.fsum(pair.gap for pair in pairs) / len(pairs),
        cells=" ".join(sorted({cell for pair in pairs for cell in (pair.reference, pair.condition)})),
        **effect_values(metric, test, corrected, floor),
    )
