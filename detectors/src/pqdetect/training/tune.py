"""Decision rules from validation recordings: which level, how often, and when an alarm ends."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Rule, decide
from pqdetect.evaluation.metrics import degraded_report, detected_within_s, episode_masks, outcome
from pqdetect.evaluation.results import Share
from pqdetect.evaluation.truth import Flags, Truth

# Below the 0.5 an hour of the target: validation and test differ.
FALSE_ALARM_BUDGET_PER_H: Final = 0.3
COUNTS: Final = ((1, 1), (2, 2), (2, 3), (3, 3), (3, 5))
DEGRADED_HOLDS: Final = (1, 2)
LEVELS: Final = 30

Scores = NDArray[np.float64]


class AttackFigures(TypedDict):
    """Validation figures of a rule of ATTACK."""

    recall_visible: float
    recall_visible_loss_30pct: float | None
    false_alarms_per_h: float
    attack_free_hours: float
    median_delay_s: float | None
    budget_per_h: float
    within_budget: bool


class DegradedFigures(TypedDict):
    """Validation figures of a rule of DEGRADED."""

    recall: float
    precision: float
    stretches: int


F = TypeVar("F", AttackFigures, DegradedFigures)


@dataclass(frozen=True)
class Tuned(Generic[F]):
    """A rule and the validation figures it was chosen for."""

    rule: Rule
    figures: F


def levels(scores: Scores, quiet: Flags, count: int = LEVELS) -> list[float]:
    """Thresholds worth trying, highest first: far quantiles of the scores of quiet windows, and above all."""
    calm = np.sort(scores[quiet])
    if len(calm) == 0:
        calm = np.sort(scores)
    shares = np.geomspace(1.0 / len(calm), 0.2, count)
    places = np.clip((len(calm) * (1 - shares)).astype(int), 0, len(calm) - 1)
    found = {float(calm[place]) for place in places} | {
        float(np.nextafter(calm[-1], np.inf)),
        float(np.max(scores)),
    }
    # A level at the least score would be an alarm for ever.
    return sorted((level for level in found if level > float(calm[0])), reverse=True)


def attack_rule(
    scores: Scores, truth: Truth, release: float, budget_per_h: float = FALSE_ALARM_BUDGET_PER_H
) -> Tuned[AttackFigures]:
    """The rule that finds most of the visible episodes within the budget of false alarms.

    Episodes with ≥ 30 % loss count as much as all together; the shorter median delay breaks ties. ``release``
    is the level at which an alarm ends, as a share of the one at which it begins. Where no rule keeps to the
    budget, the one with the fewest false alarms.
    """
    everything, lossy = episode_masks(truth.episodes)
    best: tuple[tuple[float, ...], Rule, AttackFigures] | None = None
    for level, (need, among) in itertools.product(levels(scores, ~truth.near_attack), COUNTS):
        rule = Rule(level, level * release if level > 0 else level, need, among)
        result = outcome(decide(scores, truth.starts, rule), truth)
        found = np.isfinite(result.delays_s)
        whole = float(found[everything].mean()) if everything.any() else 0.0
        heavy = float(found[lossy].mean()) if lossy.any() else whole
        delay = detected_within_s(result.delays_s, 0.5)
        within = result.false_per_hour <= budget_per_h
        key = (
            (1.0, round(whole + heavy, 4), -(delay if delay is not None else math.inf))
            if within
            else (0.0, -result.false_per_hour, whole + heavy)
        )
        if best is None or key > best[0]:
            figures: AttackFigures = {
                "recall_visible": round(whole, 4),
                "recall_visible_loss_30pct": round(heavy, 4) if lossy.any() else None,
                "false_alarms_per_h": round(result.false_per_hour, 4),
                "attack_free_hours": round(result.attack_free_hours, 1),
                "median_delay_s": delay,
                "budget_per_h": budget_per_h,
                "within_budget": within,
            }
            best = (key, rule, figures)
    if best is None:
        raise ValueError("the scores are all the same: no level tells anything apart")
    return Tuned(best[1], best[2])


def degraded_rule(scores: Scores, truth: Truth, release: float) -> Tuned[DegradedFigures]:
    """The rule with the best harmonic mean of stretches found and alarms that are right."""
    best: tuple[float, Rule, DegradedFigures] | None = None
    for level, (need, among), hold in itertools.product(
        levels(scores, ~truth.near_degraded), COUNTS[:2], DEGRADED_HOLDS
    ):
        rule = Rule(level, level * release if level > 0 else level, need, among, hold)
        report = degraded_report(decide(scores, truth.starts, rule), truth)
        found, right = (_value(report[name]) for name in ("recall", "precision"))
        value = 2 * found * right / (found + right) if found + right else 0.0
        if best is None or value > best[0]:
            best = (value, rule, {"recall": found, "precision": right, "stretches": report["recall"]["n"]})
    if best is None:
        raise ValueError("the scores are all the same: no level tells anything apart")
    return Tuned(best[1], best[2])


def attack_told(tuned: Tuned[AttackFigures]) -> str:
    """The validation figures of an attack rule in words."""
    one = tuned.figures
    heavy, delay = one["recall_visible_loss_30pct"], one["median_delay_s"]
    over = "" if one["within_budget"] else f" (over the {one['budget_per_h']:g} allowed)"
    return (
        f"ATTACK: {one['recall_visible'] * 100:.1f} % of the visible episodes found"
        f"{'' if heavy is None else f' ({heavy * 100:.1f} % with ≥ 30 % loss)'}, "
        f"median delay {'∞' if delay is None else f'{delay:.1f} s'}, "
        f"{one['false_alarms_per_h']:.2f} false alarms/h in {one['attack_free_hours']:.1f} h{over}"
    )


def degraded_told(tuned: Tuned[DegradedFigures]) -> str:
    """The same of a degraded rule."""
    one = tuned.figures
    return (
        f"DEGRADED: {one['recall'] * 100:.1f} % of {one['stretches']} stretches found, "
        f"{one['precision'] * 100:.1f} % of the alarms right"
    )


def _value(share: Share) -> float:
    return 0.0 if share["value"] is None else share["value"]
