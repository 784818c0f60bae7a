"""Profiles: the plan must agree with what was measured, in rate, sizes and bursts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqsitl.contract import tv_distance
from pqsitl.errors import SpecError
from pqsitl.profile import expected_histogram, expected_rates_hz, load_profile, profile_names


@pytest.mark.parametrize("name", profile_names())
def test_cycle_has_the_measured_mix(name: str) -> None:
    profile = load_profile(name)
    rates = expected_rates_hz(profile)
    for row in profile.mix:
        assert rates[row.name] == pytest.approx(row.rate_hz, rel=0.01), row.name
    measured: dict[int, float] = {}
    for row in profile.mix:
        measured[row.size_bytes] = measured.get(row.size_bytes, 0.0) + row.rate_hz
    assert tv_distance(measured, expected_histogram(profile)) < 0.001


@pytest.mark.parametrize("name", profile_names())
def test_burst_plan_has_the_measured_bursts(name: str) -> None:
    profile = load_profile(name)
    sizes = sorted(len(burst.names) for burst in profile.cycle)
    assert sizes[len(sizes) // 2] == profile.burst_stats.p50
    assert sizes[int(len(sizes) * 0.95)] == profile.burst_stats.p95
    assert len(sizes) / profile.cycle_s(profile.rate_hz) == pytest.approx(
        profile.burst_stats.per_second, rel=0.01
    )
    offsets = [burst.offset for burst in profile.cycle]
    assert offsets == sorted(offsets)
    assert offsets[0] >= 0 and offsets[-1] < 1


@given(st.floats(min_value=5, max_value=5000), st.sampled_from(sorted(profile_names())))
def test_any_rate_is_reached_and_shares_sum_to_one(rate_hz: float, name: str) -> None:
    profile = load_profile(name)
    assert sum(expected_rates_hz(profile, rate_hz).values()) == pytest.approx(rate_hz)
    shares = expected_histogram(profile, rate_hz, uplink=True, overhead_bytes=24)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares) >= 14 + 24


def test_impossible_requests_say_what_is_possible() -> None:
    with pytest.raises(SpecError) as unknown:
        load_profile("streams_13hz")
    assert "streams_12hz" in unknown.value.hint
    with pytest.raises(SpecError):
        load_profile().cycle_s(1.0)


def test_contract_and_profile_need_no_pymavlink() -> None:
    code = "import sys, pqsitl.contract, pqsitl.bulk; sys.exit('pymavlink' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
