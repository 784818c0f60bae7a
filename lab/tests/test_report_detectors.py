"""Detectors in analysis and report: every figure and table of that part, and silence without one."""

from __future__ import annotations

import csv
from pathlib import Path

import detector_bundle
import pytest
from report_bundle import make_bundle

from pqlab.analysis.detectors import poisson_interval
from pqlab.report import build, render
from pqlab.report.blocks import Figure, Paragraphs, Table
from pqlab.report.source import Source

IDS = (
    "det-recommendations", "det-models", "det-quality", "det-scenarios", "det-fig-system", "det-fig-overhead",
    "det-overhead", "det-fig-heat", "det-fig-family", "det-fig-keygen", "det-verdicts",
)  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return detector_bundle.make(tmp_path_factory.mktemp("detectors"))


def rows(bundle: Path, name: str) -> list[dict[str, str]]:
    with (bundle / "data" / "analysis" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_part_is_there_and_filled(bundle: Path) -> None:
    section = next(s for s in build(Source(bundle)).sections if s.id == "detectors")
    found = {block.id: block for block in section.blocks if not isinstance(block, str)}
    assert set(IDS) <= set(found)
    for name in IDS:
        block = found[name]
        if isinstance(block, Table):
            assert block.rows, name
        elif isinstance(block, Figure):
            assert "<rect" in block.svg, name
        else:
            assert isinstance(block, Paragraphs) and block.sentences, name


def test_both_pages_render(bundle: Path, tmp_path: Path) -> None:
    page, text = render(bundle, tmp_path)
    assert 'id="det-models"' in page.read_text()
    assert "Detection models of this campaign" in text.read_text()


def test_overhead_pairs_cells_that_differ_in_their_detector_alone(bundle: Path) -> None:
    found = rows(bundle, "detector_overhead")
    assert {(row["condition"], row["reference"]) for row in found} == {
        ("xgboost", "baseline"),
        ("tst", "baseline"),
    }
    scopes = {row["scope"] for row in found if row["metric"] == "handshake_total_ms"}
    assert scopes == {"all suites", "ML-KEM", "HQC", "Classic-McEliece"}
    whole = next(row for row in found if row["scope"] == "all suites" and row["metric"] == "drone_pct")
    assert whole["n_pairs"] == "9"
    # synthetic cells differ by chance alone, and nine A/A pairs are too few for a measured floor
    assert whole["verdict"] == "not distinguishable"
    assert whole["floor_method"] == "assumed"


def test_baseline_cells_show_zero_and_detectors_their_own_cpu(bundle: Path) -> None:
    found = rows(bundle, "detectors")
    assert {row["cpu_mean_pct"] for row in found if row["condition"] == "baseline"} == {"0"}
    own = [float(row["cpu_mean_pct"]) for row in found if row["condition"] == "tst"]
    assert own == pytest.approx([1.5] * len(own), rel=0.01)


def test_quality_holds_rules_on_the_same_windows(bundle: Path) -> None:
    found = rows(bundle, "detector_quality")
    own = {row["watcher"]: row for row in found if row["kind"] == "detector"}
    assert set(own) == {"xgboost", "tst"}
    for row in found:
        twin = own[row["detector"]]
        assert row["judged_count"] == twin["judged_count"]
        assert row["false_alarm_count"] == "0"
        assert float(row["false_alarms_high_per_h"]) > 0


def test_silent_without_a_detector(tmp_path: Path) -> None:
    plain = make_bundle(tmp_path, suites=(detector_bundle.SUITES[0],), bulk=False)
    assert not (plain / "data" / "analysis" / "detectors.csv").exists()
    assert "detectors" not in [section.id for section in build(Source(plain)).sections]


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)]
)
def test_exact_poisson_intervals(count: int, low: float, high: float) -> None:
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-3)
