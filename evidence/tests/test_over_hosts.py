"""Effects over hosts: Student's t as scipy has it, what is refused, and how often intervals hold the truth.

The bounds of the study are those of 93–97 % (5 % for twins) widened by what so few campaigns can tell (four
standard errors); the full study writes its tables into docs/COVERAGE.md, which is checked here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pqevidence.analysis import coverage_hosts as study
from pqevidence.analysis.estimate import NO_SPREAD
from pqevidence.analysis.floor import MEASURED, Floor
from pqevidence.analysis.hosts import (
    CONDITION,
    OVER_HOSTS,
    Contrasted,
    _differences,
    _left_out,
    _over,
    over_hosts,
    welch_p,
)
from pqevidence.analysis.metrics import HANDSHAKE
from pqevidence.analysis.stats import INSUFFICIENT
from pqevidence.merge.page import hangs_on

PAGE = Path(__file__).resolve().parents[2] / "docs" / "COVERAGE.md"


def waves(count: int, at: float = 0.1, by: float = 0.05) -> list[float]:
    return [at + by * math.sin(7 * i + 1) for i in range(count)]


@pytest.mark.parametrize(
    ("hosts", "low", "high", "p_value"),
    [
        (3, 0.12023736652144601, 0.16246653586483384, 0.0012031078904181395),
        (4, 0.09586534699417962, 0.16594129706327018, 0.0012793871462824114),
        (8, 0.06556206022300483, 0.13097173263086243, 0.00019283238028613297),
        (16, 0.07931953413227734, 0.11981819278749962, 2.6850822764637536e-08),
        (30, 0.09080847249885479, 0.11769237538188432, 7.879995205072978e-16),
    ],
)
def test_the_interval_is_scipy_s_at_every_number_of_hosts(
    hosts: int, low: float, high: float, p_value: float
) -> None:
    """scipy 1.17.1, scipy.stats.ttest_1samp(waves(hosts), 0.0) with its confidence_interval(0.95)."""
    result = over_hosts(waves(hosts))
    assert (result.n, result.method) == (hosts, OVER_HOSTS), "no bootstrap from ten hosts on"
    assert result.low == pytest.approx(low, rel=1e-9) and result.high == pytest.approx(high, rel=1e-9)
    assert result.p_value == pytest.approx(p_value, rel=1e-6)


@pytest.mark.parametrize(
    ("one", "other", "p_value"),
    [(3, 3, 0.005240895977879109), (3, 9, 0.24944963935486492), (12, 5, 0.057389363851277665)],
)
def test_two_hosts_are_compared_as_scipy_does(one: int, other: int, p_value: float) -> None:
    """scipy 1.17.1, scipy.stats.ttest_ind(…, equal_var=False)."""
    assert welch_p(waves(one), waves(other, 0.2, 0.2)) == pytest.approx(p_value, rel=1e-7)
    assert welch_p(waves(2), waves(3)) is None and welch_p([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]) is None


def test_student_s_interval_by_hand() -> None:
    result = over_hosts([0.0, 0.1, 0.2])
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert (result.low, result.high) == (pytest.approx(0.1 - half), pytest.approx(0.1 + half))


def test_below_three_hosts_nothing_is_inferred() -> None:
    for values in ([], [0.1], [0.1, 0.2]):
        result = over_hosts(values)
        assert (result.low, result.high, result.p_value, result.method) == (None, None, None, INSUFFICIENT)
    assert over_hosts([0.1, 0.1, 0.1]).method == NO_SPREAD


def contrasted(by_host: dict[str, list[float]], floor: float = 0.0) -> Contrasted:
    return Contrasted(
        CONDITION, "b", "a", HANDSHAKE, "ms", "ratio", "b a", by_host, Floor(floor, 50, MEASURED, 0.001)
    )


def test_one_value_a_host_whatever_its_blocks() -> None:
    """Ten blocks on one host are no ten hosts."""
    few = {"h1": [0.1], "h2": [0.2], "h3": [0.4]}
    many = {"h1": [0.1] * 10, "h2": [0.2], "h3": [0.4, 0.4]}
    rows = [_over([contrasted(units)], "sim").rows[0] for units in (few, many)]
    assert rows[0] == rows[1]
    assert (rows[0]["n_hosts"], rows[0]["df"], rows[0]["unit_of_inference"]) == (3, 2, "host")
    assert rows[0]["spread"] == pytest.approx(math.exp(0.1527525))
    two = _over([contrasted({"h1": [0.1], "h2": [0.2]})], "sim").rows[0]
    assert (two["low_effect"], two["verdict"]) == (None, INSUFFICIENT)
    assert two["reason"] == "2 hosts: an interval over hosts needs 3"


def test_the_host_that_a_verdict_hangs_on_is_named() -> None:
    """Without the wild one the others agree, and a claim stands."""
    by_host = {"h1": [0.100], "h2": [0.101], "h3": [0.099], "h4": [0.102], "wild": [-0.4]}
    row = _over([contrasted(by_host)], "sim").rows[0]
    assert (row["verdict"], row["hangs_on_host"]) == ("not distinguishable", "wild")
    left = {r["left_out_host"]: r for r in _left_out([contrasted(by_host)], "sim").rows}
    assert left["wild"]["verdict"] == "regressed" and left["wild"]["n_hosts"] == 4
    assert row["most_left_out_effect"] == left["wild"]["mean_effect"] == pytest.approx(math.exp(0.1005))
    steady = {f"h{n}": [0.1 + n / 1000] for n in range(5)}
    row = _over([contrasted(steady)], "sim").rows[0]
    assert (row["verdict"], row["hangs_on_host"]) == ("regressed", "")
    assert _over([contrasted(steady, floor=0.2)], "sim").rows[0]["verdict"] == "not distinguishable"


def test_of_three_hosts_nobody_can_tell_which_one_a_verdict_hangs_on() -> None:
    (three,) = _over([contrasted({"h1": [0.100], "h2": [0.101], "h3": [0.099]})], "sim").rows
    assert (three["verdict"], hangs_on(three)) == ("regressed", "not told")
    (five,) = _over([contrasted({f"h{n}": [0.1 + n / 1000] for n in range(5)})], "sim").rows
    assert hangs_on(five) == "–"


def test_hosts_two_by_two() -> None:
    by_host = {"h1": [0.1, 0.11, 0.09], "h2": [0.1, 0.09, 0.12], "h3": [0.5, 0.51, 0.49], "h4": [0.1]}
    rows = _differences([contrasted(by_host)], "sim").rows
    told = {(row["host"], row["other_host"]): row["verdict"] for row in rows}
    assert told["h1", "h2"] == "not distinguishable"
    assert told["h1", "h3"] == told["h2", "h3"] == "differ"
    assert told["h1", "h4"] == INSUFFICIENT and len(rows) == 6
    assert {row["family_count"] for row in rows} == {3}


# ---------------------------------------------------------------------- how often it holds


def slack_pct(campaigns: int, share: float) -> float:
    return 400.0 * math.sqrt(share * (1.0 - share) / campaigns)


@pytest.mark.parametrize("hosts", study.HOSTS)
@pytest.mark.parametrize("name", study.LAYOUTS)
def test_intervals_over_hosts_cover(name: str, hosts: int) -> None:
    campaigns = 600 // hosts
    got = study.host_coverage(name, hosts, campaigns, "unit").held_pct
    assert 93.0 - slack_pct(campaigns, 0.95) <= got <= 97.0 + slack_pct(campaigns, 0.95)


def test_blocks_are_no_hosts() -> None:
    """Read as one of boards like these, the interval of all blocks is too short."""
    got = study.host_coverage("hosts that differ widely", 4, 150, "unit")
    assert got.blocks_pct < 85.0 < got.held_pct


def test_the_study_sees_intervals_that_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqevidence.analysis.hosts.student_t_quantile", lambda p, df: 1.96)
    assert study.host_coverage("hosts that differ", 4, 200, "unit").held_pct < 91.0


@pytest.mark.parametrize("hosts", [2, 4])
def test_equal_hosts_are_not_told_apart_and_unequal_ones_are(hosts: int) -> None:
    assert study.twins_differ_pct(3, 150, hosts, "unit") <= 5.0 + slack_pct(150, 0.05)
    assert study.twins_differ_pct(5, 40, hosts, "unit", gap=0.2) >= 90.0


def test_the_page_holds_a_full_study_within_its_bounds() -> None:
    part = PAGE.read_text(encoding="utf-8").partition(study.BEGIN)[2].partition(study.END)[0]
    over, _, twins = part.partition("Equal hosts")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if re.match(r"\| [\w ]+ \| \d+ \| [\d.]+ \|", line)
    ]
    held = {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 5}
    assert set(held) == {(name, hosts) for name in study.LAYOUTS for hosts in study.HOSTS}
    assert all(93.0 <= share <= 97.0 for share in held.values()), held
    differ = {(int(row[0]), int(row[1])): float(row[2]) for row in rows if len(row) == 3}
    assert set(differ) == {(count, blocks) for count in (2, 4) for blocks in study.TWIN_BLOCKS}
    assert all(share <= 5.0 for share in differ.values()), differ
    assert int(re.sub(r"\D", "", re.findall(r"([\d,]+) campaigns a line", over)[0])) >= 4000 and twins
