"""Tables and report sections of rekeys, pooled handshakes and long sessions, and their absence elsewhere."""

from __future__ import annotations

import csv
import json
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import rekey_bundle
import report_bundle
from rekey_bundle import SUITE
from report_page import Page

from pqevidence.analysis.load import BundleData
from pqevidence.analysis.table import Table
from pqevidence.measures.growth.tables import slope
from pqevidence.measures.rekey import tables as rekeys
from pqevidence.pages import render

SPECIAL = ("rekeys", "rekey_sweep", "pooled", "growth")


def rows(root: Path, name: str) -> list[dict[str, str]]:
    with (root / "data" / "analysis" / f"{name}.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


def page(root: Path) -> Page:
    return Page(render(root)[0].read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rekey_bundle.make(tmp_path_factory.mktemp("rekeys") / "run")


def test_the_model_stands_beside_what_was_measured(swept: Path) -> None:
    often, rare = sorted(rows(swept, "rekey_sweep"), key=lambda row: float(row["every_s"]))
    assert (often["condition"], often["completed_count"], often["n_cells"]) == ("every-200ms", "12", "3")
    assert float(often["phi_model_pct"]) == pytest.approx(100 * 5 / 205, rel=1e-6)
    assert float(rare["phi_model_pct"]) == pytest.approx(100 * 5 / 405, rel=1e-6)
    for row in (often, rare):
        # the synthetic link adds microseconds where the model claims milliseconds
        assert float(row["blackout_share_pct"]) < float(row["phi_model_pct"])
        assert row["blackout_verdict"] == "below the model" and float(row["excess_high_pct"]) < 0
        low, high = float(row["blackout_low_pct"]), float(row["blackout_high_pct"])
        assert low < float(row["blackout_share_pct"]) < high < float(row["phi_model_pct"])
        assert (row["lost_count"], row["late_count"]) == ("0", "0")
        assert len(row["cells"].split()) == 3 and row["reference"] == "none"


def test_cpu_is_claimed_only_where_it_can_be_told(swept: Path) -> None:
    often, rare = sorted(rows(swept, "rekey_sweep"), key=lambda row: float(row["every_s"]))
    assert often["cpu_drone_verdict"] == "more"
    assert float(often["cpu_drone_low_points"]) < 30.3 < float(often["cpu_drone_high_points"])
    # nothing was added to the ground's CPU: whatever its mean, there is nothing to say
    assert {often["cpu_gcs_verdict"], rare["cpu_gcs_verdict"]} == {"not distinguishable"}


def test_an_effect_on_one_of_many_suites_can_be_claimed() -> None:
    """Holm over 60 suites asks for p ≤ 0.0008; 1,999 resamples cannot say less than 0.001."""
    rng, suites = random.Random(5), [f"suite-{number}" for number in range(60)]
    cpu = Table("cpu", ("cell_id", "host", "cpu_valid", "process_mean_pct"))
    cells = []
    for suite in suites:
        for block in range(12):
            for condition in ("none", "every-400ms"):
                slower = 20.0 if (suite, condition) == ("suite-7", "every-400ms") else 0.0
                cell_id = f"{suite} {block} {condition}"
                cells.append(
                    SimpleNamespace(
                        cell_id=cell_id,
                        suite_id=suite,
                        condition=condition,
                        verdict="pass",
                        ring="lab",
                        repetition=block,
                        earlier_run=None,
                        plan={"block": block, "position": len(cells)},
                    )
                )
                for role in ("drone", "gcs"):
                    percent = 10 + slower + rng.gauss(0, 0.5)
                    cpu.add(cell_id=cell_id, host=role, cpu_valid=True, process_mean_pct=percent)
    conditions = [rekey_bundle.BASE, rekey_bundle.RARE]
    bundle = SimpleNamespace(plan={"conditions": conditions}, scenario={}, cells=cells, seed=3)
    found = rekeys._cpu_effects(cast(BundleData, bundle), cpu)
    assert {found[suite, "every-400ms", "drone"].result.method for suite in suites} == {"bootstrap-t"}
    told = [suite for suite in suites if found[suite, "every-400ms", "drone"].verdict == "more"]
    assert told == ["suite-7"], found["suite-7", "every-400ms", "drone"].p_holm


def test_two_runs_are_too_few_for_any_verdict(tmp_path: Path) -> None:
    root = rekey_bundle.make(tmp_path / "run", repetitions=2)
    for row in rows(root, "rekey_sweep"):
        assert row["blackout_verdict"] == row["cpu_drone_verdict"] == "insufficient"
        assert row["excess_low_pct"] == row["cpu_drone_low_points"] == ""
    assert "insufficient" in page(root).text_of["rekey-sweep-table"]


def test_without_a_condition_free_of_rekeys_the_cpu_is_compared_with_nothing(tmp_path: Path) -> None:
    conditions = (rekey_bundle.RARE, rekey_bundle.OFTEN)
    root = rekey_bundle.make(tmp_path / "run", conditions=conditions)
    told = rows(root, "rekey_sweep")
    assert [row["reference"] for row in told] == ["", ""]
    assert {row["cpu_drone_verdict"] for row in told} == {"insufficient"}


def test_one_interval_in_two_conditions_is_no_curve_over_the_interval(tmp_path: Path) -> None:
    """As where a scenario rekeys at one rate over several links: the table tells them apart."""
    same = {**rekey_bundle.OFTEN, "rekey": rekey_bundle.RARE["rekey"]}
    root = rekey_bundle.make(tmp_path / "run", conditions=(rekey_bundle.BASE, rekey_bundle.RARE, same))
    assert [row["every_s"] for row in rows(root, "rekey_sweep")] == ["0.4", "0.4"]
    found = page(root)
    assert "fig-rekey-sweep" not in found.text_of and len(found.rows["rekey-sweep-table"]) == 1 + 2


def test_the_report_shows_rekeys_with_links_to_their_cells(swept: Path) -> None:
    found = page(swept)
    for name in ("fig-rekey-sweep", "rekey-sweep-table", "rekey-cpu-table", "rekey-cells-table"):
        assert found.text_of[name].strip(), name
    assert len(found.rows["rekey-cells-table"]) == 1 + 6
    text = (swept / "data" / "report.html").read_text(encoding="utf-8")
    assert re.search(r'id="rekey-sweep-table".*?href="#cell-[0-9a-f]{16}"', text, re.DOTALL)
    assert text == render(swept)[0].read_text(encoding="utf-8")


def test_cold_and_pooled_are_compared_cell_by_cell(tmp_path: Path) -> None:
    slow = "cs-classicmceliece348864-ascon128a-mldsa44"
    suites = (SUITE, slow, "plain")
    root = report_bundle.make_bundle(
        tmp_path / "run", suites=suites, repetitions=3, pooled=6, session_s=0.5, bulk=False
    )
    told = {row["suite_id"]: row for row in rows(root, "pooled")}
    assert set(told) == {SUITE, slow}  # plain has neither
    assert told[slow]["verdict"] == "faster" and float(told[slow]["ratio_high"]) < 0.5
    assert (told[slow]["n_cold"], told[slow]["n_pooled"]) == ("24", "18")
    cold = {row["suite_id"]: row for row in rows(root, "by_suite")}
    assert float(told[slow]["cold_median_ms"]) == pytest.approx(float(cold[slow]["median_ms"]), rel=1e-6)
    assert float(told[slow]["pooled_median_ms"]) < float(cold[slow]["min_ms"])
    found = page(root)
    assert len(found.rows["pooled-table"]) == 3
    plain = next(row for row in rows(root, "handshakes") if row["suite_id"] == "plain")
    assert (plain["n"], plain["reason"]) == ("0", "suite plain makes no handshake")


def test_growth_of_a_long_session_is_told_by_host_and_quantity(tmp_path: Path) -> None:
    def leak(root: Path) -> None:
        for path in root.glob("data/cells/*/telemetry.drone.lp"):
            parts = re.split(r"rss_bytes=\d+i", path.read_text())
            values = [f"rss_bytes={40_000_000 + 1000 * place}i" for place in range(len(parts) - 1)]
            pairs = zip(parts, [*values, ""], strict=True)
            path.write_text("".join(part + value for part, value in pairs))

    root = report_bundle.make_bundle(
        tmp_path / "run", suites=(SUITE,), session_s=130, handshakes=5, bulk=False, edit=leak
    )
    told = {(row["host"], row["quantity"]): row for row in rows(root, "growth")}
    assert len(told) == 6
    drone, ground = told["drone", "rss_mb"], told["gcs", "rss_mb"]
    # 10 samples a second, 1 kB each: 36 MB an hour
    assert float(drone["slope_per_h"]) == pytest.approx(36, rel=0.01)
    assert float(drone["growth"]) == pytest.approx(1.17, rel=0.05)
    assert (float(ground["growth"]), float(ground["slope_per_h"])) == (0, 0)
    counters = json.loads(next(root.glob("data/cells/*/counters.json")).read_text())
    window = counters["drone"]["windows"]["traffic"]
    assert float(drone["ledger_mb"]) == pytest.approx((window["tx_data"] + window["rx_ok"]) * 40 / 1e6)
    assert told["drone", "thread_count"]["ledger_mb"] == ""
    assert told["drone", "fd_count"]["reason"] == "the sampler does not tell it here"
    found = page(root)
    assert "resident memory" in found.text_of["growth-table"]
    assert "no part of it" in (root / "data" / "report.md").read_text(encoding="utf-8")


def test_a_slope_ignores_single_odd_samples() -> None:
    line = [(i / 10, 2.0 + 3.0 * i / 10) for i in range(500)]
    line[250] = (25.0, 9e9)
    assert slope(line) == pytest.approx(3.0)
    assert slope([(0.0, 1.0)]) is None


def test_other_bundles_have_none_of_it(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", suites=(SUITE,), bulk=False)
    assert not [name for name in SPECIAL if (root / "data" / "analysis" / f"{name}.csv").exists()]
    assert not {"rekeys", "pooled", "growth"} & set(page(root).ids)
