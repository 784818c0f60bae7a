"""One set of recordings, one detector: every figure of it as JSON."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Rule, decide
from pqdetect.evaluation.metrics import (
    Outcome,
    auroc,
    degraded_report,
    detected_within_s,
    episode_masks,
    outcome,
    rate,
    recall,
)
from pqdetect.evaluation.results import CurvePoint, Delay, Equal, Group, Method
from pqdetect.evaluation.truth import Episode, Truth
from pqdetect.training.tune import levels

Scores = NDArray[np.float64]
EQUAL_FALSE_ALARMS_PER_H: Final = 0.5
CURVE_LEVELS: Final = 28
CDF_POINTS: Final = (
    0.3,
    0.6,
    0.9,
    1.2,
    1.8,
    2.4,
    3.6,
    4.8,
    6.0,
    9.0,
    12.0,
    18.0,
    24.0,
    36.0,
    48.0,
    60.0,
    90.0,
)


@dataclass(frozen=True)
class HeldOut:
    """What no training or validation recording holds."""

    kinds: frozenset[str]
    profiles: frozenset[str]
    rates: frozenset[float]


@dataclass(frozen=True)
class Point:
    """One level of a sweep and what came of it."""

    level: float
    result: Outcome


def sweep(scores: Scores, truth: Truth, rule: Rule) -> list[Point]:
    """The rule at many levels, highest first; the level of release keeps its ratio."""
    ratio = rule.off / rule.on if rule.on > 0 else 1.0
    points = []
    for level in levels(scores, ~truth.near_attack, CURVE_LEVELS):
        moved = replace(rule, on=level, off=level * ratio if level > 0 else level)
        points.append(Point(level, outcome(decide(scores, truth.starts, moved), truth)))
    return points


def at_equal_alarms(points: list[Point], per_h: float = EQUAL_FALSE_ALARMS_PER_H) -> Outcome:
    """The most sensitive level with at most that many false alarms an hour."""
    within = [point.result for point in points if point.result.false_per_hour <= per_h]
    if not within:
        # Even the highest level alarms too often: at no alarm at all nothing is found.
        sample = points[0].result
        return Outcome(np.full_like(sample.delays_s, math.inf), 0, sample.attack_free_hours, 0.0)
    return max(within, key=lambda result: int(np.count_nonzero(np.isfinite(result.delays_s))))


def method_report(
    scores: NDArray[np.float32], truth: Truth, rules: dict[str, Rule], held_out: HeldOut, points: list[Point]
) -> Method:
    """Every figure of one detector at the rule of its card."""
    attack, degraded = scores[:, 0].astype(np.float64), scores[:, 1].astype(np.float64)
    result = outcome(decide(attack, truth.starts, rules["attack"]), truth)
    everything, lossy = episode_masks(truth.episodes)
    known = ~truth.hidden
    unseen = np.array([_held_out(episode, held_out) for episode in truth.episodes], dtype=np.bool_)
    area = auroc(attack[known], truth.attack[known])
    area_degraded = auroc(degraded[truth.degraded_known], truth.degraded[truth.degraded_known])
    return {
        "window_auroc": None if area is None else round(area, 4),
        "window_auroc_degraded": None if area_degraded is None else round(area_degraded, 4),
        "recall_visible": recall(result, everything),
        "recall_loss_30pct": recall(result, lossy),
        "recall_held_out": recall(result, unseen),
        "recall_held_out_loss_30pct": recall(result, unseen & lossy),
        "false_alarms_per_h": rate(result.false_alarms, result.attack_free_hours),
        "alarm_time_share": round(result.alarm_time_share, 6),
        "delay_s": _delays(result.delays_s),
        "delay_loss_30pct_s": _delays(result.delays_s[lossy]),
        "delay_cdf": [(s, round(_within(result.delays_s, s), 4)) for s in CDF_POINTS]
        if len(everything)
        else [],
        "by_kind": _grouped(result, truth, lambda e: e.kind, lossy, held_out.kinds),
        "by_rate_pps": _grouped(
            result, truth, lambda e: f"{e.rate_pps:g}", lossy, {f"{r:g}" for r in held_out.rates}
        ),
        "by_profile": _grouped(result, truth, lambda e: e.profile, lossy, held_out.profiles),
        "degraded": degraded_report(decide(degraded, truth.starts, rules["degraded"]), truth),
        "equal_alarms": _equal(at_equal_alarms(points), everything, lossy),
        "curve": [_curve_point(point, everything, lossy) for point in points],
    }


def _held_out(episode: Episode, held_out: HeldOut) -> bool:
    return (
        episode.kind in held_out.kinds
        or episode.profile in held_out.profiles
        or episode.rate_pps in held_out.rates
    )


def _delays(delays_s: NDArray[np.float64]) -> Delay:
    """Quantiles over all episodes; null where one lies among the missed, which are infinite."""
    p50, p90, p95 = (detected_within_s(delays_s, share) for share in (0.5, 0.9, 0.95))
    return {"p50": p50, "p90": p90, "p95": p95, "n": len(delays_s)}


def _within(delays_s: NDArray[np.float64], seconds: float) -> float:
    return float(np.count_nonzero(delays_s <= seconds)) / max(len(delays_s), 1)


def _grouped(
    result: Outcome,
    truth: Truth,
    key: Callable[[Episode], str],
    lossy: NDArray[np.bool_],
    unseen: Collection[str],
) -> dict[str, Group]:
    groups: dict[str, list[int]] = defaultdict(list)
    for number, episode in enumerate(truth.episodes):
        groups[key(episode)].append(number)
    found: dict[str, Group] = {}
    for name in sorted(groups, key=lambda text: (float(text), "") if _is_number(text) else (0.0, text)):
        chosen = np.zeros(len(truth.episodes), dtype=np.bool_)
        chosen[groups[name]] = True
        found[name] = {
            "held_out": name in unseen,
            "recall": recall(result, chosen),
            "recall_loss_30pct": recall(result, chosen & lossy),
            "median_delay_s": detected_within_s(result.delays_s[chosen], 0.5),
        }
    return found


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("e+", "", 1).isdigit()


def _equal(result: Outcome, everything: NDArray[np.bool_], lossy: NDArray[np.bool_]) -> Equal:
    return {
        "at_most_per_h": EQUAL_FALSE_ALARMS_PER_H,
        "false_alarms_per_h": rate(result.false_alarms, result.attack_free_hours),
        "recall_visible": recall(result, everything),
        "recall_loss_30pct": recall(result, lossy),
        "delay_s": _delays(result.delays_s),
    }


def _curve_point(point: Point, everything: NDArray[np.bool_], lossy: NDArray[np.bool_]) -> CurvePoint:
    result = point.result
    return {
        "level": float(f"{point.level:.6g}"),
        "false_alarms_per_h": round(result.false_per_hour, 4)
        if math.isfinite(result.false_per_hour)
        else None,
        "recall_visible": recall(result, everything).get("value"),
        "recall_loss_30pct": recall(result, lossy).get("value"),
        "median_delay_s": detected_within_s(result.delays_s, 0.5),
    }
