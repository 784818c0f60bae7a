"""Condition comparisons: pairing, floors, corrections, verdicts, and that nothing is deleted."""

from __future__ import annotations

import json
import math
import random
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import report_bundle
from hypothesis import given
from hypothesis import strategies as st

from pqevidence.analysis import bootstrap, claims, conditions, noncentral, power
from pqevidence.analysis.estimate import NO_SPREAD, estimate, hodges_lehmann
from pqevidence.analysis.floor import Floor
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.metrics import BY_NAME, HANDSHAKE
from pqevidence.analysis.multiplicity import benjamini_hochberg, holm
from pqevidence.analysis.stats import student_t_quantile, student_t_two_sided
from pqevidence.derived import tables_of
from pqevidence.pages import render

BASE = {"name": "baseline", "detector": "none", "link": "none"}
TWIN = {**BASE, "name": "twin", "aa_of": "baseline"}
SLOW = {**BASE, "name": "slow", "detector_history": "warm"}


def stretch(factor: float) -> report_bundle.Edit:
    """Every handshake of condition `slow` takes `factor` times as long."""
    return report_bundle.stretched(factor, lambda row: row["condition"] == "slow")


def compared(root: Path, **changes: Any) -> Path:
    """Small cells of a condition, its twin and a slower one."""
    options = {"edit": stretch(3.0), "repetitions": 4, "conditions": (BASE, TWIN, SLOW), **changes}
    return report_bundle.make_bundle(root, bulk=False, session_s=0.5, handshakes=5, **options)


def effects(root: Path) -> list[dict[str, Any]]:
    return next(table.rows for table in tables_of(BundleData(root)) if table.name == claims.NAME)


def rows(found: list[dict[str, Any]], condition: str, metric: str = HANDSHAKE) -> list[dict[str, Any]]:
    return [row for row in found if row["condition"] == condition and row["metric"] == metric]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared(tmp_path_factory.mktemp("conditions") / "run")


def test_a_slower_condition_regresses_and_its_twin_does_not(bundle: Path) -> None:
    found = effects(bundle)
    slow, twin = rows(found, "slow"), rows(found, "twin")
    assert {row["verdict"] for row in slow} == {claims.REGRESSED}
    assert {row["verdict"] for row in twin} == {claims.NOT_DISTINGUISHABLE}
    assert slow[0]["scope"] == claims.ALL_SUITES
    assert len(slow) == 4
    for row in slow:
        assert row["mean_effect"] == pytest.approx(3.0, rel=0.05)
        assert row["robust_effect"] == pytest.approx(3.0, rel=0.05)
        assert row["low_effect"] < row["mean_effect"] < row["high_effect"]
        assert (row["kind"], row["n_pairs"], row["method"]) == ("A/B", 4, "Student t")
        assert row["floor_method"] in ("measured", "measured at another cost") and row["floor_pairs"] >= 10
    assert {row["kind"] for row in twin} == {"A/A"}


def test_the_floor_is_what_as_many_twins_differ_by(bundle: Path) -> None:
    data = BundleData(bundle)
    walls = {
        row["cell_id"]: row["drone_wall_median_ms"]
        for table in tables_of(data)
        if table.name == "handshakes"
        for row in table.rows
    }
    place = {(c.suite_id, c.repetition, c.condition): c.cell_id for c in data.cells}
    twins = {
        (suite, rep): math.log(walls[place[suite, rep, "twin"]] / walls[cell_id])
        for (suite, rep, condition), cell_id in place.items()
        if condition == "baseline"
    }
    # 12 pairs of three suites in one decade of cost or in two: the rule by hand
    costs = {key: math.floor(math.log10(walls[place[*key, "baseline"]])) for key in twins}
    own = {c: [twins[k] for k in twins if costs[k] == c] for c in set(costs.values())}
    pool = max((v for v in own.values() if len(v) >= 10), key=square, default=list(twins.values()))
    used = {c: v if len(v) >= 10 else pool for c, v in own.items()}
    assert all(shift_free(values) for values in used.values())
    error = math.sqrt(sum(square(used[costs[k]]) for k in twins)) / len(twins)
    n = min(map(len, used.values()))
    found = rows(effects(bundle), "slow")[0]
    assert math.log(found["floor_effect"]) == pytest.approx(student_t_quantile(0.995, n) * error)
    assert found["visible_effect"] > found["floor_effect"]


def square(values: list[float]) -> float:
    return sum(v * v for v in values) / len(values)


def shift_free(values: list[float]) -> bool:
    return abs(sum(values)) / math.sqrt(sum(v * v for v in values)) < 2.5


def test_the_report_says_what_the_verdicts_say(bundle: Path) -> None:
    page, text = render(bundle)
    words = text.read_text(encoding="utf-8")
    assert "## Comparison of conditions" in words
    assert "Under slow in place of baseline, handshake\\_total\\_ms regressed over the 3 suites." in words
    assert "Under twin" not in words
    assert 'id="condition-all"' in page.read_text(encoding="utf-8")


def test_one_condition_has_no_table_and_no_section(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", bulk=False, handshakes=5)
    assert claims.NAME not in {table.name for table in tables_of(BundleData(root))}
    assert "Comparison of conditions" not in render(root)[1].read_text(encoding="utf-8")


def test_fewer_than_three_pairs_are_insufficient(tmp_path: Path) -> None:
    root = compared(tmp_path / "run", repetitions=2, conditions=(BASE, SLOW))
    for row in effects(root):
        assert (row["verdict"], row["low_effect"], row["p_value"]) == ("insufficient", None, None)
        assert row["reason"] == "insufficient"
        assert (row["floor_method"], row["floor_pairs"]) == ("assumed", 0)


# ---------------------------------------------------------------------- contrasts and pairs


def test_links_are_compared_with_the_empty_router_too() -> None:
    control = {**BASE, "name": "link-0", "link": {"probe": {"udp_count": 400}, "up": {"delay_ms": 0}}}
    lossy = {**BASE, "name": "lossy", "link": {"up": {"loss_pct": 5}}}
    found = conditions.contrasts_of([BASE, control, lossy, TWIN])
    told = {(c.condition, c.reference, c.twins) for c in found}
    assert told == {
        ("twin", "baseline", True),
        ("link-0", "baseline", False),
        ("lossy", "baseline", False),
        ("lossy", "link-0", False),
    }
    other = {**lossy, "detector": "tst"}
    assert ("lossy", "link-0") not in {
        (c.condition, c.reference) for c in conditions.contrasts_of([BASE, control, other])
    }
    assert conditions.contrasts_of([BASE]) == []


def test_pairs_stay_within_a_block(bundle: Path) -> None:
    data = BundleData(bundle)
    pairs = conditions.pairs_of(data.cells, conditions.Contrast("slow", "baseline", False))
    assert len(pairs) == 12
    plan = {cell.cell_id: cell.plan for cell in data.cells}
    for pair in pairs:
        one, other = plan[pair.reference], plan[pair.condition]
        assert (one["block"], one["suite_id"]) == (other["block"], other["suite_id"])
        assert pair.gap == other["position"] - one["position"]


def test_cells_of_different_runs_are_no_pair(tmp_path: Path) -> None:
    """A condition that was added to a bundle later: what lies between the runs is no effect of it."""

    def added(root: Path) -> None:
        cells = [cell for cell in report_bundle.plan_cells(root) if cell["condition"] != "slow"]
        path = root / "data" / "run.json"
        entry = {"run_id": "earlier", "cells": [cell["cell_id"] for cell in cells]}
        path.write_text(json.dumps({**json.loads(path.read_text()), "lineage": [entry]}))
        stretch(3.0)(root)

    root = compared(tmp_path / "run", edit=added)
    data = BundleData(root)
    slow, twin = (conditions.Contrast(name, "baseline", name == "twin") for name in ("slow", "twin"))
    assert conditions.pairs_of(data.cells, slow) == []
    assert len(conditions.pairs_of(data.cells, twin)) == 12
    # later repetitions of all conditions are a run of their own, with pairs of its own
    last = max(cell.repetition for cell in data.cells)
    path = root / "data" / "run.json"
    document = json.loads(path.read_text())
    document["lineage"][0]["cells"] = [c.cell_id for c in data.cells if c.repetition < last]
    path.write_text(json.dumps(document))
    data = BundleData(root)
    assert len(conditions.pairs_of(data.cells, slow)) == 12
    document["lineage"][0]["cells"] = [
        c.cell_id for c in data.cells if c.repetition < last and c.condition != "slow"
    ]
    path.write_text(json.dumps(document))
    assert {row["verdict"] for row in rows(effects(root), "slow")} == {"insufficient"}


# ---------------------------------------------------------------------- arithmetic


def test_t_p_value_and_quantile_are_inverse() -> None:
    for df in (2, 9, 29):
        assert student_t_two_sided(student_t_quantile(0.975, df), df) == pytest.approx(0.05, rel=1e-6)
    assert student_t_two_sided(-3.182446, 3) == pytest.approx(0.05, rel=1e-4)


def test_hodges_lehmann_is_the_median_of_walsh_averages() -> None:
    values = [0.1, 0.4, -0.2, 5.0, 0.3]
    walsh = [(a + b) / 2 for a, b in combinations_with_replacement(values, 2)]
    assert hodges_lehmann(values) == pytest.approx(median(walsh))
    assert hodges_lehmann([]) is None


def test_holm_and_bh_on_a_worked_example() -> None:
    p = [0.01, 0.04, None, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, None, 0.06, 0.02])
    assert benjamini_hochberg(p) == pytest.approx([0.02, 0.04, None, 0.04, 0.02])


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_corrections_never_shrink_p_and_keep_its_order(values: list[float]) -> None:
    strict, screen = holm(values), benjamini_hochberg(values)
    for raw, one, other in zip(values, strict, screen, strict=True):
        assert one is not None and other is not None
        assert raw <= other + 1e-12 and other <= one + 1e-12 and one <= 1.0
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [strict[i] for i in order] == sorted(x for x in strict if x is not None)


def test_outliers_are_named_and_kept() -> None:
    values = [0.01, -0.01, 0.02, 0.0, 0.015, 2.0]
    found = estimate(values, seed=1)
    assert found.outliers == (5,)
    assert found.n == 6
    assert found.mean == pytest.approx(sum(values) / 6)


def test_equal_differences_make_no_claim() -> None:
    assert estimate([0.3] * 4, seed=1).method == NO_SPREAD
    floor = Floor(0.01, 12, "measured")
    assert claims.verdict_of(estimate([0.3] * 4, seed=1), None, floor) == "insufficient"
    assert claims.verdict_of(estimate([0.0] * 4, seed=1), None, floor) == claims.NOT_DISTINGUISHABLE


def test_ten_runs_use_the_bootstrap_and_a_small_p_leaves_zero_out_of_its_interval() -> None:
    rng = random.Random(5)
    for shift in (0.0, 0.5, 1.0, 2.0):
        values = [rng.expovariate(1.0) - 1.0 + shift for _ in range(12)]
        found = estimate(values, seed=3)
        assert found.method == "bootstrap-t"
        assert found == estimate(values, seed=3)
        assert found.low is not None and found.high is not None and found.p_value is not None
        assert found.p_value > 0.05 or not found.low <= 0.0 <= found.high
    assert found.p_value < 0.01


def test_few_distinct_values_fall_back_to_student() -> None:
    assert estimate([0.0] * 9 + [1.0, 2.0], seed=1).method == "Student t"


def test_resamples_grow_with_the_family() -> None:
    assert bootstrap.resamples_for(1) == 1999
    least = 2.0 / (bootstrap.resamples_for(72) + 1)
    assert least <= 0.05 / 72 / 2


@pytest.mark.parametrize(
    ("p_holm", "floor", "word"),
    [
        (0.01, Floor(0.05, 12, "measured"), claims.REGRESSED),
        (0.06, Floor(0.05, 12, "measured"), claims.NOT_DISTINGUISHABLE),
        (0.01, Floor(0.11, 12, "measured"), claims.NOT_DISTINGUISHABLE),
        (0.01, Floor(0.0985, 3, "assumed"), claims.NOT_DISTINGUISHABLE),
        (0.01, Floor(0.05, 3, "assumed"), claims.REGRESSED),
    ],
)
def test_a_claim_needs_both_a_small_p_and_an_effect_beyond_the_floor(
    p_holm: float, floor: conditions.Floor, word: str
) -> None:
    found = estimate([0.098, 0.1, 0.102, 0.1, 0.101], seed=1)
    assert claims.verdict_of(found, p_holm, floor) == word


def test_less_is_better() -> None:
    found = estimate([-0.2, -0.21, -0.19], seed=1)
    assert claims.verdict_of(found, 0.01, Floor(0.05, 12, "measured")) == claims.IMPROVED


# ---------------------------------------------------------------------- plans


def test_power_of_the_t_test_against_tables() -> None:
    # a standardised effect of 1 with 10 pairs has power 0.803 (Cohen 1988, and every power calculator)
    assert noncentral.power_of(math.sqrt(10), student_t_quantile(0.975, 9), 9) == pytest.approx(
        0.803, abs=0.002
    )
    assert power.detectable(1.0, 10) == pytest.approx(0.996, abs=0.005)


def test_precision_from_a_bundle_and_without_one(bundle: Path, tmp_path: Path) -> None:
    known = {entry.metric: entry for entry in power.precision(bundle, 3, 72)}
    wall = known[HANDSHAKE]
    assert wall.sd is not None and wall.half_width is not None and wall.detectable is not None
    assert 0.0 < wall.sd < 0.2
    assert 1.0 < wall.half_width < wall.detectable
    assert wall.sd_pairs == 36
    more = {entry.metric: entry for entry in power.precision(bundle, 30, 72)}[HANDSHAKE]
    assert more.half_width is not None and more.half_width < wall.half_width
    assert all(e.half_width is None and e.reason for e in power.precision(None, 3, 72))
    assert all(e.half_width is None and e.reason for e in power.precision(tmp_path, 3, 72))
    assert all(e.half_width is None for e in power.precision(bundle, 2, 72))
    assert set(known) == set(BY_NAME)


def test_a_simulated_bundle_says_nothing_of_a_machine(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "analysis"
    folder.mkdir(parents=True)
    for name in ("handshakes", "traffic", "cpu"):
        text = (bundle / "data" / "analysis" / f"{name}.csv").read_text(encoding="utf-8")
        (folder / f"{name}.csv").write_text(text.replace(",lab,", ",sim,"), encoding="utf-8")
    found = power.precision(tmp_path, 5, 3)
    assert {entry.reason for entry in found} == {"the earlier bundle is simulated"}
    assert all(entry.half_width is None for entry in found)


def test_repetitions_of_one_condition_give_the_spread_too(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", repetitions=3, bulk=False, handshakes=5, session_s=0.5)
    wall = {entry.metric: entry for entry in power.precision(root, 5, 3)}[HANDSHAKE]
    assert wall.sd_pairs == 6
    assert wall.sd is not None and wall.sd > 0.0
