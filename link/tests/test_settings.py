"""Settings: what is refused, with a reason, and what the rest means."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pqlink.errors import SettingsError
from pqlink.settings import NOTHING, Burst, Side


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"delay": 5}, "delay"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": "80"}, "delay_ms"),
        ({"delay_ms": True}, "delay_ms"),
        ({"delay_ms": math.nan}, "delay_ms"),
        ({"loss_pct": 100.1}, "loss_pct"),
        ({"jitter_ms": 5}, "below a delay of zero"),
        ({"delay_ms": 20, "jitter_ms": 10, "distribution": "normal"}, "below a delay of zero"),
        ({"distribution": "pareto", "delay_ms": 1}, "pareto"),
        ({"reorder_pct": 5}, "reorder_pct"),
        ({"queue_ms": 5}, "queue_ms"),
        ({"burst_loss": {"p_enter_pct": 1}}, "burst_loss"),
        ({"burst_loss": {"p_enter_pct": 1, "p_exit_pct": 0, "loss_pct": 5}}, "never end"),
        ([], "mapping"),
    ],
)
def test_refused(given: Any, word: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Side.parse(given)
    assert word in str(caught.value)
    assert caught.value.code == "bad_settings"


def test_nothing_is_nothing() -> None:
    assert Side.parse(None) == Side.parse({}) == NOTHING
    assert NOTHING.expected_loss_pct == NOTHING.expected_delay_ms == NOTHING.expected_jitter_ms == 0


def test_a_side_survives_its_own_dictionary() -> None:
    side = Side(
        delay_ms=80, jitter_ms=10, loss_pct=5, burst_loss=Burst(1, 20, 90), rate_kbps=64, queue_ms=300
    )
    assert Side.parse(side.as_dict()) == side


def test_expected_values_by_hand() -> None:
    assert Side(delay_ms=80, jitter_ms=10).expected_jitter_ms == pytest.approx(10 / math.sqrt(3))
    # A standard normal cut at ± 3 has standard deviation 0.98658.
    assert Side(delay_ms=80, jitter_ms=10, distribution="normal").expected_jitter_ms == pytest.approx(
        9.8658, abs=1e-3
    )
    assert Side(loss_pct=5).expected_loss_pct == pytest.approx(5)
    burst = Side(loss_pct=10, burst_loss=Burst(p_enter_pct=5, p_exit_pct=15, loss_pct=40))
    assert burst.expected_loss_pct == pytest.approx(100 * (1 - 0.9 * (1 - 0.25 * 0.4)))
