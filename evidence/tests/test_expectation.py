"""What `plan` promises of precision: pairs as planned, figures from a named bundle, else unknown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pqevidence.analysis.floor import MIN_FLOOR_PAIRS_COUNT, cost_class
from pqevidence.analysis.power import Precision
from pqevidence.analysis.table import read_rows
from pqevidence.expectation import expectations, told, unanswerable
from pqevidence.paths import project_root
from pqevidence.plan import make_cells
from pqevidence.scenario import Scenario, load_scenario

TEXT = """\
schema: pqlab/scenario/v1
name: two
suites: [cs-mlkem768-aesgcm-mldsa65, cs-mlkem512-aesgcm-mldsa44]
repetitions: 4
traffic: {session_s: 5}
conditions:
  - name: plain
  - name: rekey
    rekey: {every_s: 1}
    repetitions: [1, 2, 4]
  - name: plain-aa
    aa_of: plain
"""


@pytest.fixture
def asked(tmp_path: Path) -> Scenario:
    file = tmp_path / "two.yml"
    file.write_text(TEXT)
    return load_scenario(str(file))


def test_without_a_bundle_everything_is_unknown_and_says_why(asked: Scenario) -> None:
    rows = expectations(asked, make_cells(asked, None), None)
    assert rows and {(r.condition, r.against, r.pairs, r.suites) for r in rows} == {("rekey", "plain", 3, 2)}
    (line,) = told(rows)
    assert line.startswith("rekey against plain: ") and "every figure (no earlier bundle)" in line


def test_what_is_known_is_printed_in_its_own_unit(
    asked: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[Path | None, int, int]] = []

    def spread(source: Path | None, n_pairs: int, tests: int) -> list[Precision]:
        seen.append((source, n_pairs, tests))
        return [
            Precision("handshake_ms", "ms", "ratio", 0.05, 9, 1.08, 1.153, None),
            Precision("rtt_ms", "ms", "ratio", 2.0, 9, 3.5, 120.0, None),
            Precision("loss_down_pct", "%", "difference", 0.2, 9, 0.31, 0.5, None),
            Precision("cpu_gcs_pct", "%", "ratio", None, 0, None, None, "nothing there"),
        ]

    monkeypatch.setattr("pqevidence.analysis.power.precision", spread)
    lines = told(expectations(asked, make_cells(asked, None), tmp_path))
    assert seen == [(tmp_path, 3, 2)]
    assert "handshake_ms: 95 % interval ± 8.0 % a suite, effects from 15.3 % on detectable" in lines[0]
    assert "(3 pairs a suite, 2 suites at once)" in lines[0] and "would not be seen" in lines[0]
    assert "± a factor of 3.5 a suite, effects from a factor of 120 on" in lines[1]
    assert "± 0.31 %" in lines[2]
    assert "unknown for cpu_gcs_pct (nothing there)" in lines[3]


def test_one_condition_compares_nothing() -> None:
    smoke = load_scenario("smoke")
    assert expectations(smoke, make_cells(smoke, None), None) == []


def test_a_plan_says_what_it_cannot_answer(asked: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "one.yml"
    file.write_text(TEXT.partition("conditions:")[0].replace("repetitions: 4", "repetitions: 1"))
    once = load_scenario(str(file))
    lines = unanswerable(once, make_cells(once, None))
    assert any("no interval for a single suite or condition: 1 of at least 3" in line for line in lines)
    assert any("no effect below 10 %: no noise floor" in line for line in lines)
    assert unanswerable(asked, make_cells(asked, None)) == []


def test_the_shipped_campaign_measures_its_noise_at_every_cost() -> None:
    """By the floor of primitives on record: each decade that holds suites holds ten A/A pairs or more."""
    rows = read_rows(project_root() / "results" / "reference" / "handshake-floor-x86.csv")
    decades = {row["suite"]: cost_class(float(row["floor_ms"])) for row in rows if row["floor_ms"]}
    campaign = load_scenario("campaign")
    cells = make_cells(campaign, None)
    twins = Counter(decades[cell.suite_id] for cell in cells if cell.condition == "baseline-aa")
    assert {decades[cell.suite_id] for cell in cells} == set(twins)
    assert min(twins.values()) >= MIN_FLOOR_PAIRS_COUNT
    assert unanswerable(campaign, cells) == []


def test_the_shipped_baseline_can_answer() -> None:
    baseline = load_scenario("baseline")
    assert unanswerable(baseline, make_cells(baseline, None)) == []
