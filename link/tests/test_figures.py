"""Figures of probes: intervals by published values, nulls where nothing can be said."""

from __future__ import annotations

import pytest

from pqlink.figures import loss_figures, time_figures, wilson_pct


def test_wilson_by_hand() -> None:
    # 0 of 10: upper bound z²/(n+z²) = 27.75 %; 5 of 10 is symmetric about 50 %.
    assert wilson_pct(0, 10) == pytest.approx((0.0, 27.753), abs=1e-3)
    low, high = wilson_pct(5, 10)
    assert (low + high) / 2 == pytest.approx(50)
    assert low == pytest.approx(23.659, abs=1e-3)


def test_loss() -> None:
    figures = loss_figures(1000, 950)
    assert figures["lost"] == 50
    assert figures["loss_pct"] == 5
    assert figures["loss_low_pct"] < 5 < figures["loss_high_pct"]
    assert loss_figures(0, 0)["loss_pct"] is None


def test_times() -> None:
    figures = time_figures([1_000_000, 3_000_000], "delay")
    assert figures["delay_mean_ms"] == 2
    assert figures["delay_sd_ms"] == pytest.approx(1.4142, abs=1e-4)
    assert time_figures([5_000_000], "rtt")["rtt_sd_ms"] is None
    assert time_figures([], "rtt")["rtt_mean_ms"] is None
