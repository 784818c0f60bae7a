"""Synthetic campaigns on several hosts with a known truth: how often intervals over hosts hold it, and how
often equal hosts are told apart.

    python3 -m pqevidence.analysis.coverage_hosts --write docs/COVERAGE.md    (4,000 campaigns a line)

Used by the tests with few campaigns. A host has a pace of its own, which no effect holds, and an effect of
its own about the true one; its blocks are laid out and paired as the planner and the product do.
"""

from __future__ import annotations

import math
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from pqbase.tasks import Task
from pqevidence.analysis.claims import ALPHA
from pqevidence.analysis.conditions import Contrast
from pqevidence.analysis.coverage import (
    EFFECT,
    BlockAutoregressive,
    campaign,
    differences,
    holds,
    line,
    main_of,
)
from pqevidence.analysis.estimate import estimate
from pqevidence.analysis.hosts import over_hosts, welch_p
from pqevidence.analysis.multiplicity import holm

HOSTS = (4, 8, 16)
SUITES = 4
#: sd of a host's pace and of its effect, on the logarithm
PACE_SD, EFFECT_SD = 0.15, 0.03
#: name → (sd of the hosts' effects, blocks of one host, least and most)
LAYOUTS: dict[str, tuple[float, tuple[int, int]]] = {
    "hosts that differ": (EFFECT_SD, (3, 3)),
    "hosts that differ widely": (5 * EFFECT_SD, (3, 3)),
    "hosts alike": (0.0, (3, 3)),
    "one block a host": (EFFECT_SD, (1, 1)),
    "one to six blocks a host": (EFFECT_SD, (1, 6)),
}
TWIN_BLOCKS = (3, 5, 10)
BEGIN, END = (
    "<!-- coverage over hosts: written by python3 -m pqevidence.analysis.coverage_hosts -->",
    "<!-- end of coverage over hosts -->",
)


def host_units(rng: random.Random, blocks: int, effect: float) -> list[float]:
    """What one host gives: the mean log ratio over suites of each of its blocks."""
    pace = rng.gauss(0.0, PACE_SD)
    cells, values = campaign(BlockAutoregressive, blocks, rng, SUITES, {"a": pace, "b": pace + effect})
    by_block: dict[int, list[float]] = defaultdict(list)
    for difference in differences(cells, values, Contrast("b", "a", False)):
        by_block[difference.pair.block].append(difference.value)
    return [math.fsum(by_block[block]) / len(by_block[block]) for block in sorted(by_block)]


@dataclass(frozen=True)
class HostCoverage:
    """Per cent of campaigns in which the interval over hosts holds the true effect; the same of an interval
    of all blocks together, read as one of boards like these; half width of the former, median, log."""

    held_pct: float
    blocks_pct: float
    half_width: float


def host_coverage(name: str, hosts: int, campaigns: int, seed: str) -> HostCoverage:
    """Every host draws its own effect about EFFECT."""
    spread, (least, most) = LAYOUTS[name]
    rng = random.Random(f"hosts/{seed}/{name}/{hosts}")
    held = pooled = 0
    widths = []
    for index in range(campaigns):
        units = [
            host_units(rng, rng.randint(least, most), EFFECT + rng.gauss(0.0, spread)) for _ in range(hosts)
        ]
        result = over_hosts([math.fsum(mine) / len(mine) for mine in units])
        assert result.low is not None and result.high is not None
        held += holds(result)
        pooled += holds(estimate([value for mine in units for value in mine], seed=index % 4))
        widths.append((result.high - result.low) / 2.0)
    share = 100.0 / campaigns
    return HostCoverage(held * share, pooled * share, sorted(widths)[campaigns // 2])


def twins_differ_pct(blocks: int, campaigns: int, hosts: int, seed: str, gap: float = 0.0) -> float:
    """Per cent of campaigns in which some two hosts "differ". They have one effect, or the first another one
    by `gap`, and a pace of their own each."""
    rng = random.Random(f"twins/{seed}/{blocks}/{hosts}")
    found = 0
    for _ in range(campaigns):
        units = [host_units(rng, blocks, EFFECT + (gap if host == 0 else 0.0)) for host in range(hosts)]
        p_values = holm([welch_p(one, other) for one, other in combinations(units, 2)])
        found += any(p is not None and p <= ALPHA for p in p_values)
    return 100.0 * found / campaigns


def coverage_row(name: str, hosts: int, campaigns: int) -> str:
    got = host_coverage(name, hosts, campaigns, "long")
    return f"| {name} | {hosts} | {got.held_pct:.1f} | {got.blocks_pct:.1f} | {got.half_width:.3f} |"


def twins_row(hosts: int, blocks: int, campaigns: int) -> str:
    return f"| {hosts} | {blocks} | {twins_differ_pct(blocks, campaigns, hosts, 'long'):.1f} |"


def plan_of(campaigns: int) -> list[str | Task]:
    """The page: text as it stands, lines of tables as their tasks."""
    row = partial(line, "pqevidence.analysis.coverage_hosts")
    return [
        BEGIN,
        "",
        f"Intervals over hosts, true ratio 1.2, nominal 95 %: {campaigns:,} campaigns a line, {SUITES} "
        "suites × 2 conditions.",
        "*All blocks* is the interval of these boards, read as one of boards like these.",
        "",
        "| hosts are | hosts | over hosts, % | all blocks, % | half width, log |",
        "|---|---:|---:|---:|---:|",
        *(row("coverage_row", name, hosts, campaigns) for name in LAYOUTS for hosts in HOSTS),
        "",
        f'Equal hosts told apart, {campaigns:,} campaigns a line: some two "differ".',
        "",
        "| hosts | blocks a host | differ, % |",
        "|---:|---:|---:|",
        *(row("twins_row", hosts, blocks, campaigns) for hosts in (2, 4) for blocks in TWIN_BLOCKS),
        "",
        END,
    ]


def main(argv: Sequence[str]) -> int:
    """The study of several hosts."""
    return main_of("coverage of intervals over hosts on synthetic campaigns", plan_of, 4000, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
