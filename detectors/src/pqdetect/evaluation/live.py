"""What only recordings of the running lab need: attack by attack, and what was no attack.

Cells of the lab are few and short. So each kind of attack is told with the loss it caused and what every
detector made of it, and every benign theme with the alarms it raised, beside the figures that all sets have.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.compare import compare
from pqdetect.decide import Rule, decide
from pqdetect.evaluation.metrics import outcome
from pqdetect.evaluation.results import AttackRow, DistanceRow, QuietRow
from pqdetect.evaluation.truth import WINDOW_S, Flags, Truth
from pqdetect.recording import Recording
from pqdetect.training.data import Dataset

#: features of a simulated twin that lie further than this from the lab's are named
FAR_KS: Final = 0.3


def alarms_of(
    scores: Mapping[str, NDArray[np.float32]], rules: Mapping[str, Mapping[str, Rule]], truth: Truth
) -> dict[str, Flags]:
    """Standing ATTACK alarms by detector, at the rules of the cards."""
    return {
        name: decide(scores[name][:, 0].astype(np.float64), truth.starts, rules[name]["attack"])
        for name in rules
    }


def attacks(alarms: Mapping[str, Flags], data: Dataset) -> list[AttackRow]:
    """One row a kind, rate and link: episodes, the loss in them, and by detector found and delay."""
    truth = data.truth
    groups: dict[tuple[str, str, float], list[int]] = defaultdict(list)
    for number, episode in enumerate(truth.episodes):
        groups[episode.kind, episode.profile, episode.rate_pps].append(number)
    delays = {name: outcome(flags, truth).delays_s for name, flags in alarms.items()}
    rows: list[AttackRow] = []
    for (kind, profile, rate), numbers in sorted(groups.items()):
        losses = [e.loss for e in (truth.episodes[n] for n in numbers) if e.loss is not None]
        found = {name: [float(values[n]) for n in numbers] for name, values in delays.items()}
        rows.append(
            {
                "kind": kind,
                "profile": profile,
                "rate_pps": rate,
                "episodes": len(numbers),
                "loss": [round(loss, 4) for loss in losses],
                "loss_reason": None if losses else "nothing was sent to the drone in these episodes",
                "delays_s": {
                    name: [round(d, 3) if math.isfinite(d) else None for d in values]
                    for name, values in found.items()
                },
            }
        )
    return rows


def quiet(alarms: Mapping[str, Flags], data: Dataset) -> list[QuietRow]:
    """One row a theme without a visible attack: how long, and false alarms by detector."""
    truth = data.truth
    near = truth.near_attack
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (first, end), kind in zip(data.spans, data.kinds, strict=True):
        if not truth.attack[first:end].any():
            groups[kind].append((first, end))
    rows: list[QuietRow] = []
    for kind, spans in sorted(groups.items()):
        false = {}
        for name, flags in alarms.items():
            before = np.concatenate(([False], flags[:-1])) & ~truth.starts
            onset = flags & ~before & ~near
            false[name] = sum(int(np.count_nonzero(onset[first:end])) for first, end in spans)
        seconds = sum(end - first for first, end in spans) * WINDOW_S
        rows.append(
            {"kind": kind, "recordings": len(spans), "minutes": round(seconds / 60, 2), "false": false}
        )
    return rows


def against_simulator(recordings: Sequence[Recording]) -> list[DistanceRow]:
    """Every feature's distance between these recordings and simulated twins of them."""
    return [one.as_row() for one in compare(recordings)]
