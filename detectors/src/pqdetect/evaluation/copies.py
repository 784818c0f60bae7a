"""False alarms where the way doubles packets: the same attack-free test flights, once for each share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pqdetect.decide import Rule, decide
from pqdetect.evaluation.metrics import outcome, rate
from pqdetect.evaluation.results import CopiesRow
from pqdetect.recording import Recording
from pqdetect.simulate import scenarios, simulate
from pqdetect.training.data import Dataset, collect

SHARES_PCT: Final = (None, 2.0, 5.0, 10.0, 20.0)
"""Packets that come twice; None: as many as each flight's link doubles by its profile."""
OF_TEST: Final = 0.125
"""Share of the attack-free test flights, by hours."""

Scores = Mapping[str, NDArray[np.float32]]


def flights(share_pct: float | None, scale: float) -> Iterator[Recording]:
    """The flights with that share of doubled packets; `scale` as that of the evaluation."""
    for spec in scenarios("test", scale=scale * OF_TEST, attacks=False):
        link = spec.link if share_pct is None else replace(spec.link, duplicate_pct=share_pct)
        yield simulate(replace(spec, link=link))


def rows(
    score: Callable[[Dataset, str], Scores], rules: Mapping[str, Mapping[str, Rule]], scale: float
) -> list[CopiesRow]:
    """A row a share; `score` gives (windows, 2) by detector, `rules` are those of the cards."""
    made: list[CopiesRow] = []
    for share_pct in SHARES_PCT:
        data = collect(flights(share_pct, scale))
        told = "as they are" if share_pct is None else f"{share_pct:g} % doubled"
        false = {}
        for name, scores in score(data, f"copies, {told}").items():
            alarms = decide(scores[:, 0].astype(np.float64), data.truth.starts, rules[name]["attack"])
            result = outcome(alarms, data.truth)
            false[name] = rate(result.false_alarms, result.attack_free_hours)
        made.append({"share_pct": share_pct, "flights": len(data.kinds), "false_alarms_per_h": false})
    return made
