"""Synthetic campaigns with a known effect: how often intervals hold it, how often A/A campaigns claim one.

Used by the tests with few campaigns, and as a program to write the tables of docs/STATISTICS.md:

    python3 lab/tests/coverage_study.py --write docs/STATISTICS.md     (1,000 campaigns each, some minutes)

Every campaign is laid out as the planner lays it out: blocks that hold each suite and condition once, in an
order drawn anew. Values are what a cell would give; pairing, estimates and claims are the product's own.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pqlab.analysis.claims import ALPHA, adjusted, tested_scopes, verdict_of
from pqlab.analysis.conditions import Contrast, Difference, differences_of, noise_floor, pairs_of
from pqlab.analysis.estimate import Estimate, estimate
from pqlab.analysis.metrics import BY_NAME, HANDSHAKE

METRIC = BY_NAME[HANDSHAKE]
EFFECT = math.log(1.2)
RUNS = (3, 5, 10, 30)
SUITES = 4
BEGIN, END = "<!-- coverage: written by lab/tests/coverage_study.py -->", "<!-- end of coverage -->"
#: value of one cell from (random numbers, place in the campaign 0…1)
Draw = Callable[[random.Random, float], float]


def gaussian(rng: random.Random, _place: float) -> float:
    """sd 5 % of the mean."""
    return max(rng.gauss(1.0, 0.05), 0.5)


def log_normal(rng: random.Random, _place: float) -> float:
    """σ = 0.5 on the logarithm: the upper quartile is twice the lower."""
    return rng.lognormvariate(0.0, 0.5)


def drifting(rng: random.Random, place: float) -> float:
    """Noise of 3 % on a machine that becomes 30 % slower over the campaign and swings by ± 5 %."""
    return rng.lognormvariate(0.0, 0.03) * (1.0 + 0.3 * place + 0.05 * math.sin(9.42 * place))


def heavy(rng: random.Random, _place: float) -> float:
    """One cell in ten is hit by something that triples it."""
    return rng.lognormvariate(0.0, 0.05) * (3.0 if rng.random() < 0.1 else 1.0)


SHAPES: dict[str, Draw] = {"Gaussian": gaussian, "log-normal": log_normal, "drifting": drifting}


def campaign(
    draw: Draw, blocks: int, rng: random.Random, suites: int, effects: dict[str, float]
) -> tuple[list[Any], dict[str, float]]:
    """Cells (with what pairing reads of them) and their values; effects: condition → log effect."""
    cells: list[Any] = []
    values: dict[str, float] = {}
    total = blocks * suites * len(effects)
    for block in range(blocks):
        matrix = [(suite, condition) for suite in range(suites) for condition in effects]
        rng.shuffle(matrix)
        for suite, condition in matrix:
            cell_id = str(len(cells))
            values[cell_id] = draw(rng, len(cells) / total) * math.exp(effects[condition]) * (1 + suite)
            cells.append(
                SimpleNamespace(
                    verdict="pass", condition=condition, suite_id=f"suite-{suite}", repetition=block,
                    cell_id=cell_id, ring="sim", earlier_run=None,
                    plan={"block": block, "position": len(cells)},
                )
            )  # fmt: skip
    return cells, values


def differences(cells: list[Any], values: dict[str, float], contrast: Contrast) -> list[Difference]:
    return differences_of(pairs_of(cells, contrast), METRIC, values)


@dataclass(frozen=True)
class Coverage:
    """Share of campaigns whose interval holds the true effect, per cent, and the median half width."""

    suite_pct: float
    overall_pct: float
    half_width: float


def coverage(draw: Draw, blocks: int, campaigns: int, seed: str) -> Coverage:
    """Of one suite's interval and of the mean over all suites, both on the same campaigns."""
    rng = random.Random(f"coverage/{seed}/{blocks}")
    held = overall_held = 0
    widths = []
    for index in range(campaigns):
        cells, values = campaign(draw, blocks, rng, SUITES, {"a": 0.0, "b": EFFECT})
        found = differences(cells, values, Contrast("b", "a", False))
        per_block = [
            math.fsum(d.value for d in found if d.pair.block == block) / SUITES for block in range(blocks)
        ]
        one = estimate([d.value for d in found if d.pair.suite_id == "suite-0"], seed=index % 4)
        all_suites = estimate(per_block, seed=index % 4)
        held += holds(one)
        overall_held += holds(all_suites)
        assert one.low is not None and one.high is not None
        widths.append((one.high - one.low) / 2.0)
    widths.sort()
    share = 100.0 / campaigns
    return Coverage(held * share, overall_held * share, widths[len(widths) // 2])


def holds(result: Estimate) -> bool:
    return result.low is not None and result.high is not None and result.low <= EFFECT <= result.high


@dataclass(frozen=True)
class FalseClaims:
    """Share of A/A campaigns with at least one claim, per cent."""

    raw_pct: float
    holm_pct: float
    verdict_pct: float


def false_claims(draw: Draw, blocks: int, campaigns: int, suites: int, seed: str) -> FalseClaims:
    """Three equal conditions: the third twins the first for the floor, the second is tested against it.

    raw: any p ≤ α without correction; holm: any adjusted p ≤ α; verdict: any claim, floor included.
    """
    rng = random.Random(f"false/{seed}/{blocks}")
    raw = corrected = claimed = 0
    for _ in range(campaigns):
        cells, values = campaign(draw, blocks, rng, suites, {"a": 0.0, "b": 0.0, "twin": 0.0})
        floor = noise_floor(differences(cells, values, Contrast("twin", "a", True)), METRIC)
        tests = tested_scopes(differences(cells, values, Contrast("b", "a", False)), 1, 1)
        overall, rest = adjusted(tests[:1]), adjusted(tests[1:])
        family = [*zip(tests[1:], rest, strict=True)]
        raw += any(t.result.p_value is not None and t.result.p_value <= ALPHA for t, _ in family)
        corrected += any(a.holm is not None and a.holm <= ALPHA for _, a in family)
        told = [verdict_of(t.result, a.holm, floor) for t, a in [(tests[0], overall[0]), *family]]
        claimed += any(word in ("improved", "regressed") for word in told)
    share = 100.0 / campaigns
    return FalseClaims(raw * share, corrected * share, claimed * share)


# ---------------------------------------------------------------------- the tables of docs/STATISTICS.md


def tables(campaigns: int, say: Callable[[str], None]) -> str:
    """The measured tables as Markdown."""
    lines = [
        BEGIN,
        "",
        f"{campaigns:,} campaigns a line, {SUITES} suites × 2 conditions, true ratio 1.2, nominal 95 %.",
        "",
        "| values | pairs | one suite, % | all suites, % | median half width, log |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, draw in {**SHAPES, "one in ten tripled": heavy}.items():
        for blocks in RUNS:
            got = coverage(draw, blocks, campaigns, name)
            shares = f"{got.suite_pct:.1f} | {got.overall_pct:.1f}"
            row = f"| {name} | {blocks} | {shares} | {got.half_width:.3f} |"
            say(row)
            lines.append(row)
    lines += [
        "",
        f"A/A: {campaigns:,} campaigns a line of 24 suites × 3 equal conditions; share of campaigns with at "
        "least one claim.",
        "",
        "| values | pairs | uncorrected, % | Holm, % | verdict (Holm and floor), % |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, draw in SHAPES.items():
        for blocks in (3, 5, 10):
            false = false_claims(draw, blocks, campaigns, 24, name)
            shares = f"{false.raw_pct:.1f} | {false.holm_pct:.1f} | {false.verdict_pct:.1f}"
            row = f"| {name} | {blocks} | {shares} |"
            say(row)
            lines.append(row)
    return "\n".join([*lines, "", END])


def main(argv: Sequence[str]) -> int:
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
