"""The front of level and latency, watts of a sensor, suites side by side: from raw files to the page."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest
import report_bundle
from measures.power import power_bundle
from report_page import Page

from pqevidence.analysis.pareto import DOMINATED, FRONT, pareto_table
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.analysis.table import Table, read_rows
from pqevidence.pages import render

L1, L3, L5 = "cs-mlkem512-aesgcm-mldsa44", "cs-mlkem768-aesgcm-mldsa65", "cs-mlkem1024-aesgcm-mldsa87"
SLOW_L1 = "cs-hqc128-aesgcm-mldsa44"


def verdicts(
    *suites: tuple[str, float, tuple[float, float] | None],
) -> dict[str, tuple[str, str | None, bool]]:
    """suite → (verdict, dominated by, fastest) of suites with these medians and intervals."""
    by_suite = Table(
        "by_suite",
        ("suite_id", "condition", "ring", "n_cells", "median_ms", "interval_low_ms", "interval_high_ms"),
    )
    phi = Table("phi", ("suite_id", "condition", "phi_60s_pct"))
    for suite, median_ms, interval in suites:
        low, high = interval or (None, None)
        by_suite.add(
            suite_id=suite,
            condition="c",
            ring="lab",
            n_cells=3,
            median_ms=median_ms,
            interval_low_ms=low,
            interval_high_ms=high,
        )
        phi.add(suite_id=suite, condition="c", phi_60s_pct=0.1)
    rows = pareto_table(by_suite, phi).rows
    return {str(r["suite_id"]): (str(r["verdict"]), r["dominated_by"], bool(r["fastest"])) for r in rows}  # type: ignore[misc]


def test_a_suite_is_dominated_only_by_one_of_at_least_its_level_with_an_interval_below() -> None:
    found = verdicts((L1, 1.0, (0.9, 1.1)), (L3, 2.0, (1.9, 2.1)), (L5, 3.0, (2.9, 3.1)))
    assert found == {L1: (FRONT, None, True), L3: (FRONT, None, True), L5: (FRONT, None, True)}
    found = verdicts((L1, 3.0, (2.9, 3.1)), (L3, 2.0, (1.9, 2.1)), (L5, 1.0, (0.9, 1.1)))
    assert found == {L1: (DOMINATED, L5, False), L3: (DOMINATED, L5, False), L5: (FRONT, None, True)}


def test_ties_share_the_front_and_few_cells_say_nothing() -> None:
    found = verdicts((L1, 1.0, (0.9, 1.1)), (SLOW_L1, 1.05, (0.95, 1.15)))
    assert found == {L1: (FRONT, None, True), SLOW_L1: (FRONT, None, False)}
    found = verdicts((L1, 1.0, None), (SLOW_L1, 9.0, (8.0, 10.0)))
    assert found[L1] == (INSUFFICIENT, None, True) and found[SLOW_L1] == (FRONT, None, False)


def test_recommendations_come_from_intervals_that_lie_apart(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", repetitions=3, bulk=False)
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    text = page.text_of["recommendations-list"]
    assert "classicmceliece" not in text and "distinguishably slower" in text
    slow = next(row for row in page.rows["pareto-table"] if "classicmceliece" in row[0])
    assert DOMINATED in slow and any(cell.startswith("cs-mlkem") for cell in slow)
    few = Page(render(report_bundle.make_bundle(tmp_path / "one", bulk=False))[0].read_text(encoding="utf-8"))
    assert "none was possible" in few.text_of["recommendations-list"]
    assert all(INSUFFICIENT in row for row in few.rows["pareto-table"][1:])


def test_watts_of_a_sensor_are_listed_and_recompute_from_telemetry(tmp_path: Path) -> None:
    root = power_bundle.make(tmp_path / "run")
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    rows = read_rows(root / "data" / "analysis" / "supply.csv")
    assert len(rows) == 9
    for row in rows:
        path = root / "data" / "cells" / row["cell_id"] / "telemetry.drone.lp"
        values = [float(v) for v in re.findall(r"power_w=([0-9.]+)", path.read_text())]
        assert float(row["power_mean_w"]) == pytest.approx(statistics.mean(values), rel=0.02)
        assert float(row["energy_gross_j"]) == pytest.approx(
            float(row["power_mean_w"]) * float(row["window_s"]), rel=0.02
        )
        assert row["energy_net_handshake_j"] == "" and "idle" in row["net_reason"]
    assert len(page.rows["supply-summary"]) == 4 and len(page.rows["supply-detail"]) == 10
    assert "Power and energy columns are left out" not in page.text_of["suites"]
    degrees = [float(v) for v in re.findall(r"([0-9.]+) °C", page.text_of["heat-observation"])]
    assert degrees[0] < degrees[1] == degrees[2]


def test_synthetic_watts_carry_the_word(tmp_path: Path) -> None:
    root = power_bundle.make(tmp_path / "run", synthetic=True)
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    assert page.text_of["supply"].count("synthetic") >= 9 + 3
    assert "Synthetic: no chip on a board gave these watts" in page.text_of["supply"]
    assert {row["ring"] for row in read_rows(root / "data" / "analysis" / "supply.csv")} == {"synthetic"}


def test_no_sensor_no_section(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", bulk=False)
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    assert not {"supply", "heat"} & set(page.ids)
    assert not (root / "data" / "analysis" / "supply.csv").exists()


def test_seal_and_open_stand_by_aead(tmp_path: Path) -> None:
    root = report_bundle.make_bundle(tmp_path / "run", bulk=False)
    rows = read_rows(root / "data" / "analysis" / "aead.csv")
    assert {row["aead"] for row in rows} == {"AES-256-GCM", "ChaCha20-Poly1305", "Ascon-128a"}
    for row in rows:  # what the kit's counters say: 2,400 ns a seal, 2,600 ns an open
        assert (float(row["seal_median_us"]), float(row["open_median_us"])) == (2.4, 2.6)
        assert int(row["seal_count"]) > 300
    page = Page(render(root)[0].read_text(encoding="utf-8"))
    head = next(i for i, cell in enumerate(page.rows["aead-table"][0]) if "320 Hz" in cell)
    assert [row[head] for row in page.rows["aead-table"][1:]] == ["0.0768"] * 3


def test_field_semantics_are_complete(tmp_path: Path) -> None:
    from pqevidence.record import catalogue

    page = Page(
        render(report_bundle.make_bundle(tmp_path / "run", bulk=False))[0].read_text(encoding="utf-8")
    )
    names = {row[1] for row in page.rows["semantics-table"][1:]}
    assert names == {name for category in catalogue().values() for name in category.fields}
