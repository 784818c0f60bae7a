"""False alarms over the share of doubled packets: who takes copies for an attack shows, who does not, not."""

from __future__ import annotations

import numpy as np
import pytest

from pqdetect.decide import Rule
from pqdetect.evaluation import copies
from pqdetect.features import FEATURE_NAMES
from pqdetect.training.data import Dataset

SCALE = 0.01
RULES = {name: {"attack": Rule(0.5, 0.5)} for name in ("fooled", "calm")}


def scores(data: Dataset, what: str) -> dict[str, np.ndarray]:
    """`fooled` is sure of an attack wherever more came than was authentic or refused."""
    told = {name: np.nan_to_num(data.rows[:, FEATURE_NAMES.index(name)]) for name in FEATURE_NAMES}
    copied = told["rx_datagrams"] - told["authentic"] - told["refused"] > 0
    fooled = np.zeros((len(data.rows), 2), np.float32)
    fooled[copied, 0] = 1.0
    return {"fooled": fooled, "calm": np.zeros_like(fooled)}


def test_who_takes_copies_for_an_attack_shows() -> None:
    made = copies.rows(scores, RULES, SCALE)
    assert [row["share_pct"] for row in made] == list(copies.SHARES_PCT)
    fooled = {row["share_pct"]: row["false_alarms_per_h"]["fooled"]["value"] for row in made}
    few = fooled.pop(None)
    assert all(value > 50 + 10 * few for value in fooled.values()), "an alarm that stands for long is one"
    assert {row["false_alarms_per_h"]["calm"]["count"] for row in made} == {0}
    assert len({row["false_alarms_per_h"]["calm"]["hours"] for row in made}) == 1, "the same flights"


def test_a_share_of_copies_changes_nothing_else_of_a_flight() -> None:
    as_they_are, doubled = (next(copies.flights(share, SCALE)) for share in (None, 20.0))
    assert as_they_are.truth.scenario_id == doubled.truth.scenario_id
    sent = FEATURE_NAMES.index("tx_data")
    rows = [copies.collect([flight]).rows[:, sent] for flight in (as_they_are, doubled)]
    assert rows[0].sum() == pytest.approx(rows[1].sum(), rel=0.01)
