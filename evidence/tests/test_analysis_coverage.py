"""Intervals hold the truth as often as they say, equal arms make no claims, what is stated as visible is
seen: a fast part of the study.

The bounds are those of 93–97 % widened by what so few campaigns can tell (four standard errors); the full
study writes its tables into docs/COVERAGE.md, which is checked here.
"""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

from pqevidence.analysis import coverage as study
from pqevidence.analysis.estimate import one_sided

PAGE = Path(__file__).resolve().parents[2] / "docs" / "COVERAGE.md"


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
    monkeypatch.setattr("pqevidence.analysis.stats.student_t_quantile", lambda p, df: 1.96)
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


@pytest.mark.parametrize("suites", study.LEVEL_SUITES)
@pytest.mark.parametrize("name", study.STEADY)
def test_levels_are_held_at_the_state_of_the_run(name: str, suites: int) -> None:
    got = study.levels(name, 3, 150, suites, "unit")
    assert got.printed_pct == 100.0 and got.suite_pct is not None
    for share in (got.suite_pct, got.group_pct):
        assert 93.0 - slack_pct(150) <= share <= 97.0 + slack_pct(150)


def test_a_level_in_general_is_not_held() -> None:
    assert study.levels("AR(1) between blocks", 5, 150, 24, "unit").before_pct < 85.0
    assert study.levels("hosts that differ", 5, 150, 24, "unit").before_pct < 70.0


@pytest.mark.parametrize("repetitions", [3, 10])
def test_families_take_the_suite_as_the_unit(repetitions: int) -> None:
    got = study.families(repetitions, 60, 6, "unit")
    assert got.holds_pct >= 99.17 - slack_pct(60, 0.9917)
    assert got.claims_pct <= 5.0
    assert got.before_pct < 95.0


#: fewer campaigns than this with an interval do not tell how often it holds
_TELLING_PCT = 5.0


def shares(text: str, columns: int) -> dict[tuple[str, ...], list[float | None]]:
    """Lines of a table: leading words and counts → its last `columns` figures."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > columns and re.fullmatch(r"[\d.]+|–", cells[-1]) and line.startswith("|"):
            figures = [None if cell == "–" else float(cell) for cell in cells[-columns:]]
            found[tuple(cells[:-columns])] = figures
    return found


def test_the_page_holds_a_full_study_within_its_bounds() -> None:
    part = PAGE.read_text(encoding="utf-8").partition(study.BEGIN)[2].partition(study.END)[0]
    assert "1,000 campaigns a line" in part
    intervals, _, rest = part.partition("A/A:")
    seen = shares(intervals, 6)
    due = {(world, str(blocks)) for world in study.WORLDS for blocks in study.RUNS}
    assert due | {(world, str(blocks)) for world in study.WILD for blocks in study.RUNS} == set(seen)
    for key, (printed, one, whole_printed, whole, *_) in seen.items():
        for share, of in ((one, printed), (whole, whole_printed)):
            if key in due:
                assert share is not None and 93.0 <= share <= 97.0, key
            elif share is not None and of is not None and of >= _TELLING_PCT:
                # faults and wild values: never short of what is printed by more than so few campaigns tell
                assert share >= 93.0 - slack_pct(round(10 * of)) / 2.0, key
    false, _, rest = rest.partition("Detection of")
    verdicts = shares(false, 3)
    assert set(verdicts) == due
    assert max(claimed or 0.0 for *_, claimed in verdicts.values()) <= 5.0
    found, _, rest = rest.partition("Families that")
    told = shares(found, 5)
    assert set(told) == due
    assert min(min(on_all or 0.0, on_one or 0.0) for *_, on_all, _, on_one in told.values()) >= 90.0
    families, _, levels = rest.partition("Levels within")
    held = shares(families, 4)
    assert len(held) == 2 * len(study.RUNS)
    assert all((inside or 0.0) >= 97.0 and (claimed or 0.0) <= 3.0 for _, inside, _, claimed in held.values())
    within = shares(levels, 5)
    assert set(within) == {
        (world, str(suites), str(n))
        for world in study.STEADY
        for suites in study.LEVEL_SUITES
        for n in study.RUNS
    }
    for key, (printed, one, kind, *_) in within.items():
        assert kind is not None and 92.0 <= kind <= 97.5, key
        wild = key[0] in {"one in ten tripled", "faults in one arm"}
        assert printed is not None and (wild or printed >= 90.0), key
        assert one is not None and 93.0 <= one <= (100.0 if wild else 97.5), key
