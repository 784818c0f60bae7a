"""Intervals hold the truth as often as they say, equal arms make no claims, what is stated as visible is
seen: a fast part of the study.

The bounds are those of 93–97 % widened by what so few campaigns can tell (four standard errors); the full
study writes its tables into docs/STATISTICS.md, which is checked here.
"""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

from pqlab.analysis import coverage as study
from pqlab.analysis.estimate import one_sided

PAGE = Path(__file__).resolve().parents[2] / "docs" / "STATISTICS.md"


def slack_pct(campaigns: int, share: float = 0.95) -> float:
    return 400.0 * math.sqrt(share * (1.0 - share) / campaigns)


@pytest.mark.parametrize("blocks", [3, 5, 10])
@pytest.mark.parametrize("name", study.WORLDS)
def test_intervals_cover(name: str, blocks: int) -> None:
    campaigns = 250 if blocks < 10 else 60
    got = study.coverage(name, blocks, campaigns, "unit")
    assert got.printed_pct >= 80.0 and got.suite_pct is not None and got.overall_pct is not None
    for share in (got.suite_pct, got.overall_pct):
        assert 93.0 - slack_pct(campaigns) <= share <= 97.0 + slack_pct(campaigns)


def test_the_study_sees_intervals_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    # the normal quantile in place of Student's, a mistake that is often made
    monkeypatch.setattr("pqlab.analysis.estimate.student_t_quantile", lambda p, df: 1.96)
    got = study.coverage("Gaussian", 3, 250, "unit").suite_pct
    assert got is not None and got < 88.0


def test_faults_in_one_arm_have_no_interval() -> None:
    got = study.coverage("faults in one arm, 24 suites", 5, 60, "unit")
    assert got.before_pct < 75.0
    assert got.printed_pct < 20.0
    assert study.coverage("one in ten tripled", 5, 60, "unit").printed_pct > 50.0


def test_one_sided_outliers_are_seen_over_all_suites() -> None:
    rng = random.Random(1)
    quiet = [[rng.gauss(0.0, 0.05) for _ in range(3)] for _ in range(24)]
    assert not one_sided(quiet)

    def struck(by: float, every: int) -> list[list[float]]:
        return [[*row[:2], row[2] + by] if i % every == 0 else row for i, row in enumerate(quiet)]

    assert one_sided(struck(1.1, 4))
    assert one_sided(struck(-1.1, 4))
    both = [*struck(1.1, 4), *struck(-1.1, 4)]
    assert not one_sided(both)
    assert not one_sided([]) and not one_sided([[1.0, 1.0, 1.0]])


@pytest.mark.parametrize("name", study.WORLDS)
def test_equal_conditions_make_no_claims(name: str) -> None:
    got = study.false_claims(name, 3, 120, 24, "unit")
    assert got.verdict_pct <= 5.0
    assert got.holm_pct <= 5.0 + slack_pct(120, 0.05)
    assert got.raw_pct > 30.0  # the correction has something to do


def test_twice_what_is_visible_is_seen() -> None:
    got = study.detection("Gaussian", 5, 60, 12, "unit")
    assert got.overall_pct >= 90.0 - slack_pct(60, 0.9)
    assert got.suite_pct >= 90.0 - slack_pct(60, 0.9)
    assert got.before_pct < 60.0  # the floor of single pairs


@pytest.mark.parametrize("repetitions", [3, 10])
def test_families_take_the_suite_as_the_unit(repetitions: int) -> None:
    got = study.families(repetitions, 60, 6, "unit")
    assert got.holds_pct >= 99.17 - slack_pct(60, 0.9917)
    assert got.claims_pct <= 5.0
    assert got.before_pct < 95.0


def test_the_page_holds_a_full_study_within_its_bounds() -> None:
    part = PAGE.read_text(encoding="utf-8").partition(study.BEGIN)[2].partition(study.END)[0]
    assert "1,000 campaigns a line" in part
    intervals, _, rest = part.partition("A/A:")
    name = r"^\| ([\w ,()-]+) \| (\d+) "
    line = name + r"\| [\d.]+ \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|$"
    seen = {(one, int(n)): (float(a), float(b)) for one, n, a, b in re.findall(line, intervals, re.M)}
    due = {(world, blocks) for world in study.WORLDS for blocks in study.RUNS}
    assert due <= set(seen)
    for key in due:
        assert all(93.0 <= share <= 97.0 for share in seen[key]), key
    false, _, rest = rest.partition("Detection of")
    verdicts = re.findall(name + r"\| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$", false, re.M)
    assert len(verdicts) == len(due)
    assert max(float(claimed) for *_, claimed in verdicts) <= 5.0
    found, _, rest = rest.partition("Families that")
    told = re.findall(r"\| ([\d.]+) \| [^|]+ \| ([\d.]+) \|$", found, re.M)
    assert len(told) == len(due)
    assert min(float(share) for pair in told for share in pair) >= 90.0
    held = re.findall(r"^\| (?:6|24) \| \d+ \| [\d.]+ \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \|$", rest, re.M)
    assert len(held) == 2 * len(study.RUNS)
    assert all(float(inside) >= 97.0 and float(claimed) <= 3.0 for inside, claimed in held)
