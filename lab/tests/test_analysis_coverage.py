"""Intervals hold the truth as often as they say, and A/A campaigns claim nothing: a fast part of the study.

The bounds are those of 93–97 % widened by what so few campaigns can tell (four standard errors); the full
study, 1,000 campaigns a line, writes its tables into docs/STATISTICS.md, which is checked here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import coverage_study as study
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "STATISTICS.md"


@pytest.mark.parametrize("blocks", [3, 5, 10])
@pytest.mark.parametrize("shape", study.SHAPES)
def test_intervals_cover(shape: str, blocks: int) -> None:
    campaigns = 250 if blocks < 10 else 60
    got = study.coverage(study.SHAPES[shape], blocks, campaigns, "unit")
    slack = 400.0 * math.sqrt(0.95 * 0.05 / campaigns)
    for share in (got.suite_pct, got.overall_pct):
        assert 93.0 - slack <= share <= 97.0 + slack


def test_the_study_sees_intervals_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    # the normal quantile in place of Student's, a mistake that is often made
    monkeypatch.setattr("pqlab.analysis.estimate.student_t_quantile", lambda p, df: 1.96)
    assert study.coverage(study.gaussian, 3, 250, "unit").suite_pct < 88.0


@pytest.mark.parametrize("shape", study.SHAPES)
def test_equal_conditions_make_no_claims(shape: str) -> None:
    got = study.false_claims(study.SHAPES[shape], 3, 120, 24, "unit")
    assert got.verdict_pct <= 5.0
    assert got.holm_pct <= 5.0 + 400.0 * math.sqrt(0.05 * 0.95 / 120)
    assert got.raw_pct > 30.0  # the correction has something to do


def test_the_page_holds_a_full_study_within_its_bounds() -> None:
    part = PAGE.read_text(encoding="utf-8").partition(study.BEGIN)[2].partition(study.END)[0]
    assert "1,000 campaigns a line" in part
    intervals, _, claims = part.partition("A/A:")
    cover = re.findall(r"^\| ([\w -]+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|$", intervals, re.M)
    due = {(shape, blocks) for shape in study.SHAPES for blocks in study.RUNS}
    seen = {(name, int(n)): (float(one), float(all_)) for name, n, one, all_ in cover}
    assert due <= set(seen)
    for key in due:
        assert all(93.0 <= share <= 97.0 for share in seen[key]), key
    verdicts = re.findall(r"^\| [\w -]+ \| \d+ \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$", claims, re.M)
    assert len(verdicts) == 9
    assert max(map(float, verdicts)) <= 5.0
