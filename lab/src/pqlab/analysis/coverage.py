"""Synthetic campaigns with a known truth: how often printed intervals hold it, how often nothing is claimed
to be something, how often something is seen.

    python3 -m pqlab.analysis.coverage --write docs/STATISTICS.md    (1,000 campaigns a line, some minutes)

Used by the tests with few campaigns. Every campaign is laid out as the planner lays it out: blocks that hold
each suite and condition once, in an order drawn anew. Values are what a cell would give; pairing, estimates,
floors and claims are the product's own. Columns named "before" show the rules that these replaced.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pqbase.stats import quantile7
from pqlab.analysis import bootstrap
from pqlab.analysis.claims import ALPHA, Tested, adjusted, tested_scopes, verdict_of
from pqlab.analysis.conditions import Contrast, Difference, costs_of, differences_of, null_of, pairs_of
from pqlab.analysis.estimate import Estimate, estimate
from pqlab.analysis.floor import MEASURED, Floor, Null, visible
from pqlab.analysis.metrics import BY_NAME, HANDSHAKE
from pqlab.analysis.stats import log_interval, simultaneous_level

METRIC = BY_NAME[HANDSHAKE]
EFFECT = math.log(1.2)
RUNS = (3, 5, 10, 20)
SUITES = 4
FAULTY_SUITES = 24
BEGIN, END = "<!-- coverage: written by python3 -m pqlab.analysis.coverage -->", "<!-- end of coverage -->"
CLAIMS = ("improved", "regressed")


class World:
    """What is not in the effect: one campaign's machine. `draw` gives the factor of one cell."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        self.rng = rng

    def draw(self, suite: int, condition: str, place: float) -> float:
        """place: 0 at the campaign's begin, 1 at its end."""
        raise NotImplementedError


class Gaussian(World):
    """sd 5 % of the mean."""

    def draw(self, suite: int, condition: str, place: float) -> float:
        return max(self.rng.gauss(1.0, 0.05), 0.5)


class LogNormal(World):
    """σ = 0.5 on the logarithm: the upper quartile is twice the lower."""

    def draw(self, suite: int, condition: str, place: float) -> float:
        return self.rng.lognormvariate(0.0, 0.5)


class Drifting(World):
    """Noise of 3 % on a machine that becomes 30 % slower over the campaign and swings by ± 5 %."""

    def draw(self, suite: int, condition: str, place: float) -> float:
        return self.rng.lognormvariate(0.0, 0.03) * (1.0 + 0.3 * place + 0.05 * math.sin(9.42 * place))


class Persistent(World):
    """Offsets of 5 % that stay with a suite, noise of 1 %."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.offsets = [rng.gauss(0.0, 0.05) for _ in range(suites)]

    def draw(self, suite: int, condition: str, place: float) -> float:
        return math.exp(self.offsets[suite] + self.rng.gauss(0.0, 0.01))


class Autoregressive(World):
    """Noise of 2 % on a machine whose speed wanders by 10 %, AR(1) with 0.95 from cell to cell."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.state = rng.gauss(0.0, 0.1)

    def draw(self, suite: int, condition: str, place: float) -> float:
        self.state = 0.95 * self.state + self.rng.gauss(0.0, 0.1 * math.sqrt(1.0 - 0.95**2))
        return math.exp(self.state + self.rng.gauss(0.0, 0.02))


class HeavyTails(World):
    """One cell in ten, of either arm, is hit by something that triples it."""

    def draw(self, suite: int, condition: str, place: float) -> float:
        return self.rng.lognormvariate(0.0, 0.05) * (3.0 if self.rng.random() < 0.1 else 1.0)


class Faults(World):
    """Noise of 5 %; one cell in ten of one arm alone takes three times as long."""

    def draw(self, suite: int, condition: str, place: float) -> float:
        struck = condition == "b" and self.rng.random() < 0.1
        return self.rng.lognormvariate(0.0, 0.05) * (3.0 if struck else 1.0)


class ManyFaults(Faults):
    """The same, over enough suites to see them."""


#: name → (world, mean effect of its own on arm b)
WORLDS: dict[str, tuple[type[World], float]] = {
    "Gaussian": (Gaussian, 0.0),
    "log-normal": (LogNormal, 0.0),
    "drifting": (Drifting, 0.0),
    "suite offsets": (Persistent, 0.0),
    "AR(1) machine": (Autoregressive, 0.0),
}
#: what no interval of a mean is expected to hold in; printed so that it is known
WILD: dict[str, tuple[type[World], float]] = {
    "one in ten tripled": (HeavyTails, 0.0),
    "faults in one arm, 24 suites": (ManyFaults, 0.1 * math.log(3.0)),
    "faults in one arm, 4 suites": (Faults, 0.1 * math.log(3.0)),
}


def campaign(
    world: type[World], blocks: int, rng: random.Random, suites: int, effects: dict[str, float]
) -> tuple[list[Any], dict[str, float]]:
    """Cells (with what pairing reads of them) and their values; effects: condition → log effect."""
    machine = world(rng, suites)
    cells: list[Any] = []
    values: dict[str, float] = {}
    total = blocks * suites * len(effects)
    for block in range(blocks):
        matrix = [(suite, condition) for suite in range(suites) for condition in effects]
        rng.shuffle(matrix)
        for suite, condition in matrix:
            cell_id = str(len(cells))
            factor = machine.draw(suite, condition, len(cells) / total)
            values[cell_id] = 2.0 * factor * math.exp(effects[condition])
            cells.append(
                SimpleNamespace(
                    verdict="pass", condition=condition, suite_id=f"suite-{suite}", repetition=block,
                    cell_id=cell_id, ring="sim", earlier_run=None,
                    plan={"block": block, "position": len(cells)},
                )
            )  # fmt: skip
    return cells, values


def differences(cells: list[Any], values: dict[str, float], contrast: Contrast) -> list[Difference]:
    """The product's pairs and differences."""
    return differences_of(pairs_of(cells, contrast), METRIC, values)


@dataclass(frozen=True)
class Coverage:
    """Per cent of campaigns: an interval was printed; of those the suite's and the mean's held the truth; and
    would have held it had every interval been printed."""

    printed_pct: float
    suite_pct: float | None
    overall_pct: float | None
    before_pct: float
    half_width: float | None


def coverage(name: str, blocks: int, campaigns: int, seed: str) -> Coverage:
    """Of one suite's interval and of the mean over all suites, both on the same campaigns."""
    world, own = {**WORLDS, **WILD}[name]
    suites = FAULTY_SUITES if world is ManyFaults else SUITES
    rng = random.Random(f"coverage/{seed}/{name}/{blocks}")
    truth = EFFECT + own
    printed = held = overall_held = before = 0
    widths = []
    for index in range(campaigns):
        cells, values = campaign(world, blocks, rng, suites, {"a": 0.0, "b": EFFECT})
        found = differences(cells, values, Contrast("b", "a", False))
        tests = tested_scopes(found, index % 4, 1)
        plain = estimate([d.value for d in found if d.pair.suite_id == "suite-0"], seed=index % 4)
        before += holds(plain, truth)
        one = next(test.result for test in tests if test.scope == "suite-0")
        if one.low is None or one.high is None:
            continue
        printed += 1
        held += holds(one, truth)
        overall_held += holds(tests[0].result, truth)
        widths.append((one.high - one.low) / 2.0)
    share = 100.0 / printed if printed else None
    return Coverage(
        100.0 * printed / campaigns,
        None if share is None else held * share,
        None if share is None else overall_held * share,
        100.0 * before / campaigns,
        quantile7(widths, 0.5),
    )


def holds(result: Estimate, truth: float = EFFECT) -> bool:
    """The interval holds it."""
    return result.low is not None and result.high is not None and result.low <= truth <= result.high


@dataclass(frozen=True)
class FalseClaims:
    """Share of A/A campaigns with at least one claim, per cent."""

    raw_pct: float
    holm_pct: float
    verdict_pct: float


def _claims(tests: Sequence[Tested], null: Null) -> list[str]:
    """Verdicts of the mean over all suites and of every suite, each family corrected."""
    corrected = [*adjusted(tests[:1]), *adjusted(tests[1:])]
    return [
        verdict_of(test.result, p.holm, null.floor(costs_of(test.differences)))
        for test, p in zip(tests, corrected, strict=True)
    ]


def false_claims(name: str, blocks: int, campaigns: int, suites: int, seed: str) -> FalseClaims:
    """Three equal conditions: the third twins the first for the floor, the second is tested against it.

    raw: any p ≤ α without correction; holm: any adjusted p ≤ α; verdict: any claim, floor included.
    """
    world, _ = {**WORLDS, **WILD}[name]
    rng = random.Random(f"false/{seed}/{name}/{blocks}")
    raw = corrected = claimed = 0
    for _ in range(campaigns):
        cells, values = campaign(world, blocks, rng, suites, {"a": 0.0, "b": 0.0, "twin": 0.0})
        null = null_of(differences(cells, values, Contrast("twin", "a", True)), METRIC)
        tests = tested_scopes(differences(cells, values, Contrast("b", "a", False)), 1, 1)
        p_values = [t.result.p_value for t in tests[1:]]
        raw += any(p is not None and p <= ALPHA for p in p_values)
        corrected += any(a.holm is not None and a.holm <= ALPHA for a in adjusted(tests[1:]))
        claimed += any(word in CLAIMS for word in _claims(tests, null))
    share = 100.0 / campaigns
    return FalseClaims(raw * share, corrected * share, claimed * share)


@dataclass(frozen=True)
class Detection:
    """Twice the effect that is stated as visible, per cent of ratio change, and how often it is claimed: of
    the mean over all suites with the old floor and with this one, and of single suites."""

    effect_pct: float
    before_pct: float
    overall_pct: float
    suite_effect_pct: float
    suite_pct: float


def detection(name: str, blocks: int, campaigns: int, suites: int, seed: str) -> Detection:
    """The stated size is that of an earlier A/A campaign of the same world: what `plan --from` has."""
    world, _ = WORLDS[name]
    rng = random.Random(f"detection/{seed}/{name}/{blocks}")
    effects = {"a": 0.0, "b": 0.0, "twin": 0.0}
    cells, values = campaign(world, max(blocks, 10), rng, suites, effects)
    pilot = null_of(differences(cells, values, Contrast("twin", "a", True)), METRIC)
    stated = [
        visible(pilot.floor([0] * count), blocks, None, tests)
        for count, tests in ((blocks * suites, 1), (blocks, suites))
    ]
    sizes = [2.0 * (size or 0.0) for size in stated]
    old = new = single = 0
    for _ in range(campaigns):
        for scope, size in enumerate(sizes):
            cells, values = campaign(world, blocks, rng, suites, {**effects, "b": size})
            twins = differences(cells, values, Contrast("twin", "a", True))
            tests = tested_scopes(differences(cells, values, Contrast("b", "a", False)), 1, 1)
            told = _claims(tests, null_of(twins, METRIC))
            if scope:
                single += sum(word in CLAIMS for word in told[1:])
                continue
            new += told[0] in CLAIMS
            single_pairs = quantile7([abs(d.value) for d in twins], 0.95) or 0.0
            floor = Floor(single_pairs, len(twins), MEASURED)
            old += verdict_of(tests[0].result, adjusted(tests[:1])[0].holm, floor) in CLAIMS
    whole, one = (100.0 * math.expm1(size) for size in sizes)
    share = 100.0 / campaigns
    return Detection(whole, old * share, new * share, one, single * share / suites)


@dataclass(frozen=True)
class Families:
    """Two families that do not differ, each suite with an offset of its own: per cent of campaigns in which
    the simultaneous interval holds 1, and in which a difference is claimed (before: cells as units)."""

    before_pct: float
    holds_pct: float
    before_claims_pct: float
    claims_pct: float


def families(repetitions: int, campaigns: int, suites: int, seed: str, comparisons: int = 6) -> Families:
    """One of `comparisons` simultaneous comparisons over `suites` pairs of suites."""
    rng = random.Random(f"families/{seed}/{repetitions}/{suites}")
    level = simultaneous_level(comparisons)
    old = new = old_claims = new_claims = 0
    for index in range(campaigns):
        cells: list[list[float]] = []
        steps: list[tuple[float, int]] = []
        for _ in range(suites):
            offset = rng.gauss(0.0, 0.05)
            arms = [[rng.gauss(at, 0.01) for _ in range(repetitions)] for at in (0.0, offset)]
            cells.append([b - a for a, b in zip(*arms, strict=True)])
            steps += [(y - x, 0) for arm in arms for x, y in pairwise(arm)]
        means = [math.fsum(row) / len(row) for row in cells]
        result = estimate(means, seed=index % 4, tests=comparisons, level=level)
        inside = holds(result, 0.0)
        new += inside
        floor = Null(steps, math.log(1.1)).floor([0] * suites * repetitions)
        new_claims += not inside and abs(result.mean or 0.0) > floor.value
        every = log_interval([math.exp(v) for row in cells for v in row], level=level, seed=index % 4)
        assert every is not None
        within = every.low <= 1.0 <= every.high
        old += within
        limit = quantile7([abs(v) for v, _ in steps], 0.95) or 0.0
        old_claims += not within and abs(math.log(every.estimate)) > limit
    share = 100.0 / campaigns
    return Families(old * share, new * share, old_claims * share, new_claims * share)


def repetitions_of_one_suite(
    n: int, campaigns: int, seed: str, *, rho: float = 0.0, hosts: float = 0.0
) -> float:
    """Per cent of campaigns whose interval of a suite's level holds the level that it has in general: its
    repetitions follow an AR(1) of `rho`, its host stands apart by `hosts` (sd of the logarithm)."""
    rng = random.Random(f"repetitions/{seed}/{n}/{rho}/{hosts}")
    held = 0
    for index in range(campaigns):
        state, host = rng.gauss(0.0, 0.05), rng.gauss(0.0, hosts)
        values = []
        for _ in range(n):
            values.append(math.exp(state + host))
            state = rho * state + rng.gauss(0.0, 0.05 * math.sqrt(1.0 - rho * rho))
        found = log_interval(values, seed=index % 4)
        held += found is not None and found.low <= 1.0 <= found.high
    return 100.0 * held / campaigns


# ---------------------------------------------------------------------- the tables of docs/STATISTICS.md


def _cell(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


Row = tuple[Callable[..., str], tuple[Any, ...]]


def _coverage_row(name: str, blocks: int, campaigns: int) -> str:
    got = coverage(name, blocks, campaigns, "long")
    return (
        f"| {name} | {blocks} | {got.printed_pct:.1f} | {_cell(got.suite_pct)} | {_cell(got.overall_pct)} | "
        f"{got.before_pct:.1f} | {_cell(got.half_width, 3)} |"
    )


def _false_row(name: str, blocks: int, campaigns: int) -> str:
    got = false_claims(name, blocks, campaigns, 12, "long")
    return f"| {name} | {blocks} | {got.raw_pct:.1f} | {got.holm_pct:.1f} | {got.verdict_pct:.1f} |"


def _detection_row(name: str, blocks: int, campaigns: int) -> str:
    got = detection(name, blocks, campaigns, 12, "long")
    return (
        f"| {name} | {blocks} | {got.effect_pct:.3g} | {got.before_pct:.1f} | {got.overall_pct:.1f} | "
        f"{got.suite_effect_pct:.3g} | {got.suite_pct:.1f} |"
    )


def _family_row(suites: int, repetitions: int, campaigns: int) -> str:
    got = families(repetitions, campaigns, suites, "long")
    return (
        f"| {suites} | {repetitions} | {got.before_pct:.1f} | {got.holds_pct:.1f} | "
        f"{got.before_claims_pct:.1f} | {got.claims_pct:.1f} |"
    )


def _repetition_row(n: int, campaigns: int) -> str:
    shares = " | ".join(
        f"{repetitions_of_one_suite(n, campaigns, 'long', rho=rho, hosts=hosts):.1f}"
        for rho, hosts in ((0.0, 0.0), (0.6, 0.0), (0.0, 0.03))
    )
    return f"| {n} | {shares} |"


def _plan(campaigns: int) -> list[str | Row]:
    """The page: text as it stands, rows as what makes them."""
    some, few, half = campaigns // 10, campaigns // 40, campaigns // 5
    return [
        BEGIN,
        "",
        f"Intervals of two conditions, true ratio 1.2, nominal 95 %: {campaigns:,} campaigns a line, "
        f"{SUITES} suites × 2 conditions (faults also over {FAULTY_SUITES}). *Before* is one suite's "
        "interval where it was always printed.",
        "",
        "| values | blocks | printed, % | one suite, % | all suites, % | before, % | half width, log |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *((_coverage_row, (name, n, campaigns)) for name in {**WORLDS, **WILD} for n in RUNS),
        "",
        f"A/A: {some:,} campaigns a line of 12 suites × 3 equal conditions; share of campaigns with at least "
        "one claim.",
        "",
        "| values | blocks | uncorrected, % | Holm, % | verdict (Holm and floor), % |",
        "|---|---:|---:|---:|---:|",
        *((_false_row, (name, n, some)) for name in WORLDS for n in RUNS),
        "",
        f"Detection of twice the size that is stated as visible: {few:,} campaigns a line, 12 suites.",
        "",
        "| values | blocks | on all, % | claimed before, % | claimed, % | on one, % | claimed, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *((_detection_row, (name, n, few)) for name in WORLDS for n in RUNS),
        "",
        f"Families that do not differ: {half:,} campaigns a line, offsets of 5 % that stay with a "
        "suite, noise of 1 %, one of six simultaneous intervals (99.17 %).",
        "",
        "| pairs of suites | repetitions | held before, % | holds, % | claims before, % | claims, % |",
        "|---:|---:|---:|---:|---:|---:|",
        *((_family_row, (suites, n, half)) for suites in (6, 24) for n in RUNS),
        "",
        f"One suite's level over its repetitions, {campaigns:,} campaigns a line: what its interval does not "
        "speak of.",
        "",
        "| repetitions | independent, % | AR(1) of 0.6 between them, % | hosts that differ by 3 %, % |",
        "|---:|---:|---:|---:|",
        *((_repetition_row, (n, campaigns)) for n in RUNS),
        "",
        END,
    ]


def _with_numpy() -> None:
    """Draw and sum the resamples of a bootstrap as arrays where numpy is at hand: the same method, many times
    as fast. The product has no numpy and draws them one by one."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        return

    def studentised(values: Sequence[float], seed: int, tests: int = 1) -> list[float]:
        n, count = len(values), bootstrap.resamples_for(tests)
        shifted = np.asarray(values) - math.fsum(values) / n
        drawn = shifted[np.random.default_rng(seed).integers(n, size=(count, n))]
        means, spreads = drawn.mean(axis=1), drawn.std(axis=1, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = means / (spreads / math.sqrt(n))
        flat = spreads <= 1e-6 * np.abs(means)
        found[flat] = np.where(means[flat] == 0.0, 0.0, np.copysign(np.inf, means[flat]))
        return [float(t) for t in np.sort(found)]

    bootstrap.studentised = studentised


def tables(campaigns: int, say: Callable[[str], None]) -> str:
    """The measured tables as Markdown; every core makes rows."""
    lines = []
    with ProcessPoolExecutor(initializer=_with_numpy) as pool:
        waiting = [
            entry if isinstance(entry, str) else pool.submit(entry[0], *entry[1])
            for entry in _plan(campaigns)
        ]
        for one in waiting:
            lines.append(one if isinstance(one, str) else one.result())
            say(lines[-1])
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description="coverage of the intervals on synthetic campaigns")
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--write", type=Path, help="Markdown file whose marked part is replaced")
    args = parser.parse_args(argv)
    text = tables(args.campaigns, lambda row: print(row, flush=True))
    if args.write:
        page = args.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        args.write.write_text(before + text + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
