"""Synthetic campaigns with a known truth: how often printed intervals hold it, how often nothing is claimed
to be something, how often something is seen.

    python3 -m pqevidence.analysis.coverage --write docs/COVERAGE.md    (1,000 campaigns a line: minutes)

Each line of a table is a task: `--workers 2` makes them side by side (docs/WORKERS.md).

Used by the tests with few campaigns. Every campaign is laid out as the planner lays it out: blocks that hold
each suite and condition once, in an order drawn anew. Values are what a cell would give; pairing, estimates,
floors and claims are the product's own. Columns named "before" show the rules that these replaced.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pqbase.stats import quantile7
from pqbase.tasks import Ingredients, Task, carry_out
from pqbase.workers import Where, WorkersError, add_options, runner_of
from pqevidence.analysis import bootstrap
from pqevidence.analysis.blocks import without_blocks
from pqevidence.analysis.claims import ALPHA, Tested, adjusted, tested_scopes, verdict_of
from pqevidence.analysis.conditions import Contrast, Difference, costs_of, differences_of, null_of, pairs_of
from pqevidence.analysis.estimate import Estimate, estimate
from pqevidence.analysis.floor import MEASURED, Floor, Null, visible
from pqevidence.analysis.groups import REPETITION, statistics_of
from pqevidence.analysis.metrics import BY_NAME, HANDSHAKE
from pqevidence.analysis.stats import log_interval, simultaneous_level
from pqevidence.paths import project_root

METRIC = BY_NAME[HANDSHAKE]
EFFECT = math.log(1.2)
RUNS = (3, 5, 10, 20)
SUITES = 4
FAULTY_SUITES = 24
LEVEL_SUITES = (5, 24)
BEGIN, END = (
    "<!-- coverage: written by python3 -m pqevidence.analysis.coverage -->",
    "<!-- end of coverage -->",
)
CLAIMS = ("improved", "regressed")


class World:
    """What is not in the effect: one campaign's machine. `draw` gives the factor of one cell; `common` is
    what of its logarithm every cell shares at that moment, `own` what stays with a suite."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        self.rng = rng
        self.common = 0.0
        self.own = [0.0] * suites

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
        self.common = math.log(1.0 + 0.3 * place + 0.05 * math.sin(9.42 * place))
        return math.exp(self.common + self.rng.gauss(0.0, 0.03))


class Persistent(World):
    """Offsets of 5 % that stay with a suite, noise of 1 %."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.own = [rng.gauss(0.0, 0.05) for _ in range(suites)]

    def draw(self, suite: int, condition: str, place: float) -> float:
        return math.exp(self.own[suite] + self.rng.gauss(0.0, 0.01))


class Autoregressive(World):
    """Noise of 2 % on a machine whose speed wanders by 10 %, AR(1) with 0.95 from cell to cell."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.common = rng.gauss(0.0, 0.1)

    def draw(self, suite: int, condition: str, place: float) -> float:
        self.common = 0.95 * self.common + self.rng.gauss(0.0, 0.1 * math.sqrt(1.0 - 0.95**2))
        return math.exp(self.common + self.rng.gauss(0.0, 0.02))


class BlockAutoregressive(World):
    """Noise of 2 % on a machine whose speed stays for a block and wanders by 10 %, AR(1) with 0.6
    between blocks."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.common = rng.gauss(0.0, 0.1)
        self.cells = 0
        self.suites = suites

    def draw(self, suite: int, condition: str, place: float) -> float:
        if self.cells and self.cells % self.suites == 0:
            self.common = 0.6 * self.common + self.rng.gauss(0.0, 0.1 * math.sqrt(1.0 - 0.6**2))
        self.cells += 1
        return math.exp(self.common + self.rng.gauss(0.0, 0.02))


class UnlikeNoise(World):
    """AR(1) as above; every other suite has noise of 1 %, the others of 8 %."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.machine = BlockAutoregressive(rng, suites)

    def draw(self, suite: int, condition: str, place: float) -> float:
        self.machine.draw(suite, condition, place)
        self.common = self.machine.common
        return math.exp(self.common + self.rng.gauss(0.0, 0.08 if suite % 2 else 0.01))


class Hosts(World):
    """Noise of 2 % on a host that stands 3 % (sd) apart from others of its kind."""

    def __init__(self, rng: random.Random, suites: int) -> None:
        super().__init__(rng, suites)
        self.common = rng.gauss(0.0, 0.03)

    def draw(self, suite: int, condition: str, place: float) -> float:
        return math.exp(self.common + self.rng.gauss(0.0, 0.02))


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
#: intervals speak of pairs without faults; *before* they spoke of the mean with them
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
                    verdict="pass",
                    condition=condition,
                    suite_id=f"suite-{suite}",
                    repetition=block,
                    cell_id=cell_id,
                    ring="sim",
                    earlier_run=None,
                    plan={"block": block, "position": len(cells)},
                )
            )
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
    overall_printed_pct: float
    overall_pct: float | None
    before_pct: float
    half_width: float | None


def coverage(name: str, blocks: int, campaigns: int, seed: str) -> Coverage:
    """Of one suite's interval and of the mean over all suites, both on the same campaigns."""
    world, own = {**WORLDS, **WILD}[name]
    suites = FAULTY_SUITES if world is ManyFaults else SUITES
    rng = random.Random(f"coverage/{seed}/{name}/{blocks}")
    printed = held = overall_printed = overall_held = before = 0
    widths = []
    for index in range(campaigns):
        cells, values = campaign(world, blocks, rng, suites, {"a": 0.0, "b": EFFECT})
        found = differences(cells, values, Contrast("b", "a", False))
        tests = tested_scopes(found, index % 4, 1)
        plain = estimate([d.value for d in found if d.pair.suite_id == "suite-0"], seed=index % 4)
        before += holds(plain, EFFECT + own)
        overall_printed += tests[0].result.low is not None
        overall_held += holds(tests[0].result, EFFECT)
        one = next(test.result for test in tests if test.scope == "suite-0")
        if one.low is None or one.high is None:
            continue
        printed += 1
        held += holds(one, EFFECT)
        widths.append((one.high - one.low) / 2.0)
    return Coverage(
        100.0 * printed / campaigns,
        100.0 * held / printed if printed else None,
        100.0 * overall_printed / campaigns,
        100.0 * overall_held / overall_printed if overall_printed else None,
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
        middles = [quantile7(row, 0.5) or 0.0 for row in cells]
        result = estimate(middles, seed=index % 4, tests=comparisons, level=level)
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


#: processes of the machine for values within one condition
STEADY: dict[str, type[World]] = {
    **{name: world for name, (world, _) in WORLDS.items()},
    "AR(1) between blocks": BlockAutoregressive,
    "the same, unlike noise": UnlikeNoise,
    "hosts that differ": Hosts,
    "one in ten tripled": HeavyTails,
    "faults in one arm": Faults,
}


@dataclass(frozen=True)
class Levels:
    """Per cent of campaigns: an interval of one suite's level is printed; of those it holds the level at the
    run's average state of the machine; that of a group of suites holds the level of its kind at that state;
    and what intervals held before, when they spoke of the level in general."""

    printed_pct: float
    suite_pct: float | None
    group_pct: float
    before_pct: float
    half_width: float | None


def levels(name: str, repetitions: int, campaigns: int, suites: int, seed: str) -> Levels:
    """Suites of a kind, whose levels scatter by 30 %, each once in every block."""
    rng = random.Random(f"levels/{seed}/{name}/{repetitions}/{suites}")
    printed = held = group_held = before = 0
    widths = []
    for index in range(campaigns):
        machine = STEADY[name](rng, suites)
        kind = [rng.gauss(0.0, 0.3) for _ in range(suites)]
        walls: dict[str, dict[int, float]] = {str(suite): {} for suite in range(suites)}
        states: list[float] = []
        for block in range(repetitions):
            for suite in rng.sample(range(suites), suites):
                factor = machine.draw(suite, "b", len(states) / (repetitions * suites))
                walls[str(suite)][block] = math.exp(kind[suite]) * factor
                states.append(machine.common)
        state = math.fsum(states) / len(states)
        one = index % suites
        truth = kind[one] + machine.own[one]
        steady_walls = without_blocks(walls)
        plain = log_interval(list(walls[str(one)].values()), seed=index % 4)
        assert plain is not None
        before += plain.low <= math.exp(truth) <= plain.high
        middles = [quantile7(values, 0.5) or 0.0 for values in steady_walls.values()]
        group = log_interval(middles, seed=index % 4)
        group_held += group is not None and group.low <= math.exp(state) <= group.high
        row = statistics_of(steady_walls[str(one)], steady_walls[str(one)], REPETITION, 1, "sim", index % 4)
        low_ms, high_ms = row["interval_low_ms"], row["interval_high_ms"]
        if low_ms is None or high_ms is None:
            continue
        printed += 1
        held += float(low_ms) <= math.exp(truth + state) <= float(high_ms)
        widths.append(math.log(float(high_ms) / float(low_ms)) / 2.0)
    share = 100.0 / campaigns
    suite_pct = 100.0 * held / printed if printed else None
    return Levels(printed * share, suite_pct, group_held * share, before * share, quantile7(widths, 0.5))


# ---------------------------------------------------------------------- the tables of docs/COVERAGE.md


def _cell(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


#: what a line of a table depends on beside its inputs
MADE_OF = Ingredients(("pqbase", "pqevidence"), ("numpy",))


def line(module: str, function: str, *inputs: str | int) -> Task:
    """A line of a table: what `function` of this module or of another study gives as text."""
    label = f"{function.removesuffix('_row')}: {', '.join(map(str, inputs[:-1]))}"
    return Task("pqevidence.analysis.coverage:made", (module, function, *inputs), label)


def made(module: str, function: str, *inputs: str | int) -> bytes:
    """The task of a line."""
    with _resamples_as_arrays():
        row: str = getattr(importlib.import_module(module), function)(*inputs)
    return row.encode()


def coverage_row(name: str, blocks: int, campaigns: int) -> str:
    got = coverage(name, blocks, campaigns, "long")
    return (
        f"| {name} | {blocks} | {got.printed_pct:.1f} | {_cell(got.suite_pct)} | "
        f"{got.overall_printed_pct:.1f} | {_cell(got.overall_pct)} | {got.before_pct:.1f} | "
        f"{_cell(got.half_width, 3)} |"
    )


def false_row(name: str, blocks: int, campaigns: int) -> str:
    got = false_claims(name, blocks, campaigns, 12, "long")
    return f"| {name} | {blocks} | {got.raw_pct:.1f} | {got.holm_pct:.1f} | {got.verdict_pct:.1f} |"


def detection_row(name: str, blocks: int, campaigns: int) -> str:
    got = detection(name, blocks, campaigns, 12, "long")
    return (
        f"| {name} | {blocks} | {got.effect_pct:.3g} | {got.before_pct:.1f} | {got.overall_pct:.1f} | "
        f"{got.suite_effect_pct:.3g} | {got.suite_pct:.1f} |"
    )


def family_row(suites: int, repetitions: int, campaigns: int) -> str:
    got = families(repetitions, campaigns, suites, "long")
    return (
        f"| {suites} | {repetitions} | {got.before_pct:.1f} | {got.holds_pct:.1f} | "
        f"{got.before_claims_pct:.1f} | {got.claims_pct:.1f} |"
    )


def level_row(name: str, suites: int, n: int, campaigns: int) -> str:
    got = levels(name, n, campaigns, suites, "long")
    return (
        f"| {name} | {suites} | {n} | {got.printed_pct:.1f} | {_cell(got.suite_pct)} | "
        f"{got.group_pct:.1f} | {got.before_pct:.1f} | {_cell(got.half_width, 3)} |"
    )


def plan_of(campaigns: int) -> list[str | Task]:
    """The page: text as it stands, lines of tables as their tasks."""
    row = partial(line, "pqevidence.analysis.coverage")
    some, few, half = campaigns // 4, campaigns // 20, campaigns // 2
    return [
        BEGIN,
        "",
        f"Intervals of two conditions, true ratio 1.2, nominal 95 %: {campaigns:,} campaigns a line, "
        f"{SUITES} suites × 2 conditions (faults also over {FAULTY_SUITES}). *Before* is one suite's "
        "interval where it was always printed.",
        "",
        "| values | blocks | printed, % | one suite, % | printed, % | all suites, % | before, % | "
        "half width, log |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(row("coverage_row", name, n, campaigns) for name in {**WORLDS, **WILD} for n in RUNS),
        "",
        f"A/A: {some:,} campaigns a line of 12 suites × 3 equal conditions; share of campaigns with at least "
        "one claim.",
        "",
        "| values | blocks | uncorrected, % | Holm, % | verdict (Holm and floor), % |",
        "|---|---:|---:|---:|---:|",
        *(row("false_row", name, n, some) for name in WORLDS for n in RUNS),
        "",
        f"Detection of twice the size that is stated as visible: {few:,} campaigns a line, 12 suites.",
        "",
        "| values | blocks | on all, % | claimed before, % | claimed, % | on one, % | claimed, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(row("detection_row", name, n, few) for name in WORLDS for n in RUNS),
        "",
        f"Families that do not differ: {half:,} campaigns a line, offsets of 5 % that stay with a "
        "suite, noise of 1 %, one of six simultaneous intervals (99.17 %).",
        "",
        "| pairs of suites | repetitions | held before, % | holds, % | claims before, % | claims, % |",
        "|---:|---:|---:|---:|---:|---:|",
        *(row("family_row", suites, n, half) for suites in (6, 24) for n in RUNS),
        "",
        f"Levels within one condition, nominal 95 %: {campaigns:,} campaigns a line. *One suite* and *its "
        "kind* are held at the run's average state of the machine; *before*, one suite's level in general.",
        "",
        "| values | suites | repetitions | printed, % | one suite, % | its kind, % | before, % | "
        "half width, log |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(
            row("level_row", name, suites, n, campaigns)
            for name in STEADY
            for suites in LEVEL_SUITES
            for n in RUNS
        ),
        "",
        END,
    ]


@contextmanager
def _resamples_as_arrays() -> Iterator[None]:
    """Draw and sum the resamples of a bootstrap as arrays where numpy is at hand: the same method, many times
    as fast. The product has no numpy and draws them one by one."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        yield
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

    before = bootstrap.studentised
    bootstrap.studentised = studentised
    try:
        yield
    finally:
        bootstrap.studentised = before


def _told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tables(plan: Sequence[str | Task], say: Callable[[str], None], where: Where | None, keep: Path) -> str:
    """The measured tables of a plan as Markdown; `say` gets each line. Raises WorkersError."""
    lines = []
    with runner_of(where, _told) as runner:
        rows = carry_out([one for one in plan if isinstance(one, Task)], MADE_OF, runner, _told, keep)
        for one in plan:
            lines.append(one if isinstance(one, str) else next(rows).decode())
            say(lines[-1])
        next(rows, None)  # all are taken: nothing need be kept
    return "\n".join(lines)


def main_of(study: str, plan: Callable[[int], list[str | Task]], campaigns: int, argv: Sequence[str]) -> int:
    """Print the tables of a study, or write them into a page, between the plan's first and last line."""
    parser = argparse.ArgumentParser(description=study)
    parser.add_argument("--campaigns", type=int, default=campaigns)
    parser.add_argument("--write", type=Path, help="Markdown file whose marked part is replaced")
    parser.add_argument("--keep", type=Path, help="folder for finished lines until all are (.state/tasks)")
    add_options(parser)
    args = parser.parse_args(argv)
    lines = plan(args.campaigns)
    begin, end = str(lines[0]), str(lines[-1])
    keep = args.keep or project_root() / ".state" / "tasks"
    try:
        where = Where.asked(args.workers, args.scheduler)
        text = tables(lines, lambda row: print(row, flush=True), where, keep)
    except WorkersError as error:
        print(error.text(), file=sys.stderr)
        return error.exit_code
    if args.write:
        page = args.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        args.write.write_text(before + text + after, encoding="utf-8")
    return 0


def main(argv: Sequence[str]) -> int:
    """The study of one host."""
    return main_of("coverage of the intervals on synthetic campaigns", plan_of, 1000, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
