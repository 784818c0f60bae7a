"""Detectors in analysis and report: every figure and table of that part, and silence without one."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import detector_bundle
import pytest
from detector_files import WINDOW_NS, gate_of
from report_bundle import make_bundle, plan_cells

from pqevidence.analysis.estimate import Estimate, estimate
from pqevidence.analysis.handshakes import handshake_table
from pqevidence.analysis.load import BundleData
from pqevidence.analysis.system import cpu_table
from pqevidence.measures.detector.tables import commonest, overhead_table, poisson_interval
from pqevidence.pages import build, render
from pqevidence.report.blocks import Figure, Paragraphs, Table
from pqevidence.report.source import Source

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


def test_overhead_is_estimated_for_the_size_of_its_family(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holm over many tests needs resamples that reach as far into the tails."""
    asked: list[int] = []

    def counted(values: list[float], *, seed: int, tests: int = 1) -> Estimate:
        asked.append(tests)
        return estimate(values, seed=seed, tests=tests)

    monkeypatch.setattr("pqevidence.measures.detector.tables.estimate", counted)
    data = BundleData(bundle)
    table = overhead_table(data, handshake_table(data), cpu_table(data))
    due = Counter(str(row["metric"]) for row in table.rows)
    assert sorted(asked) == sorted(count for count in due.values() for _ in range(count))
    assert max(asked) > 1


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
    # synthetic cells differ by chance alone; nine A/A pairs are too few, so steps between repetitions count
    assert whole["verdict"] == "not distinguishable"
    assert whole["floor_method"] == "measured" and int(whole["floor_pairs"]) > 9
    assert (whole["unit_of_inference"], whole["n_suites"]) == ("suite", "3")


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


def test_attack_free_hours_are_judged_windows_that_no_attack_touches(tmp_path: Path) -> None:
    """Two attacks at once, in each other's aftermath; a cell without verdicts, one that lacks one."""
    cells = ("calm", "attacked", "gap", "silent")

    def change(root: Path) -> None:
        detector_bundle.edit(root)
        for row in plan_cells(root):
            folder = root / "data" / "cells" / row["cell_id"]
            kind, (open_ns, _) = cells[row["repetition"]], gate_of(folder)
            lines = (folder / "detector.ndjson").read_text().splitlines(keepends=True)
            first = -(-open_ns // WINDOW_NS)
            if kind == "attacked":  # windows 3 to 4 and 4 to 5 of the gate, told until 3 s after the later
                truth = [
                    {
                        "t_on_ns": (first + a) * WINDOW_NS + 1,
                        "t_off_ns": (first + a + 2) * WINDOW_NS - 1,
                        "sent_count": 9,
                    }
                    for a in (3, 4)
                ]
                (folder / "attack.ndjson").write_text("".join(json.dumps(one) + "\n" for one in truth))
            elif kind == "gap":
                (folder / "detector.ndjson").write_text("".join(lines[:7] + lines[8:]))
            elif kind == "silent":
                starting = [text.replace('"ready"', '"starting"') for text in lines]
                (folder / "detector.ndjson").write_text("".join(starting))

    root = make_bundle(
        tmp_path,
        edit=change,
        suites=detector_bundle.SUITES[:1],
        repetitions=len(cells),
        bulk=False,
        conditions=(detector_bundle.XGBOOST,),
        session_s=12.0,
    )
    due = {}
    for row in plan_cells(root):
        open_ns, close_ns = gate_of(root / "data" / "cells" / row["cell_id"])
        due[cells[row["repetition"]]] = close_ns // WINDOW_NS - -(-open_ns // WINDOW_NS)
    # of the attacked cell windows 3 to 5 and the five after them
    quiet = due["calm"] + due["attacked"] - 8 + due["gap"] - 1
    told = {row["watcher"]: row for row in rows(root, "detector_quality")}
    assert float(told["xgboost"]["quiet_h"]) == pytest.approx(quiet * 0.6 / 3600, rel=1e-6)
    every = sum(due.values()) - 8
    for rule in ("any authentication failure", "any refused datagram"):
        assert float(told[rule]["quiet_h"]) == pytest.approx(every * 0.6 / 3600, rel=1e-6)
        assert told[rule]["judged_count"] == str(sum(due.values()))


def test_silent_without_a_detector(tmp_path: Path) -> None:
    plain = make_bundle(tmp_path, suites=(detector_bundle.SUITES[0],), bulk=False)
    assert not (plain / "data" / "analysis" / "detectors.csv").exists()
    assert "detectors" not in [section.id for section in build(Source(plain)).sections]


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (10, 4.7954, 18.3904)]
)
def test_exact_poisson_intervals(count: int, low: float, high: float) -> None:
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-3)


def test_of_reasons_that_are_equally_frequent_the_first_is_told() -> None:
    # a set of words has another order in each process
    reasons = [f"reason {n}" for n in range(50)]
    assert commonest(reasons) == "reason 0"
    assert commonest([*reasons, "reason 7"]) == "reason 7"
    assert commonest([]) is None
