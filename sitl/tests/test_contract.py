"""The traffic contract accepts the profile's own traffic and rejects each mutant of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqsitl.contract import check_rate, check_traffic, size_counts, tv_distance
from pqsitl.profile import expected_histogram, load_profile

RATE_HZ, DURATION_S = 320.0, 110.0


def ideal(
    profile: str = "intervals_320hz", rate_hz: float = RATE_HZ, duration_s: float = DURATION_S
) -> dict[int, int]:
    total = rate_hz * duration_s
    return {size: round(share * total) for size, share in expected_histogram(profile, rate_hz).items()}


def verdict(
    sizes: dict[int, int], *, received: int | None = None, profile: str | None = "intervals_320hz"
) -> bool:
    return check_traffic(
        count=sum(sizes.values()),
        duration_s=DURATION_S,
        nominal_hz=RATE_HZ,
        sizes=sizes,
        profile=profile,
        received_count=received,
    ).ok


def test_the_profile_itself_passes() -> None:
    sizes = ideal()
    assert verdict(sizes, received=sum(sizes.values()))


def test_mutants_are_rejected_each_by_its_check() -> None:
    sizes = ideal()
    count = sum(sizes.values())
    cases = {
        "one datagram lost": (sizes, count - 1, "traffic_loss"),
        "one datagram too many": (sizes, count + 1, "traffic_loss"),
        "3 % too few": ({k: round(v * 0.97) for k, v in sizes.items()}, None, "traffic_rate"),
        "3 % too many": ({k: round(v * 1.03) for k, v in sizes.items()}, None, "traffic_rate"),
        "865 packets where 35,200 were claimed": ({40: 865}, None, "traffic_rate"),
        "one size only": ({40: count}, None, "traffic_sizes"),
        "another profile": (ideal("streams_12hz"), None, "traffic_sizes"),
        "every frame a byte longer": ({k + 1: v for k, v in sizes.items()}, None, "traffic_sizes"),
    }
    for name, (mutant, received, check) in cases.items():
        result = check_traffic(
            count=sum(mutant.values()),
            duration_s=DURATION_S,
            nominal_hz=RATE_HZ,
            sizes=mutant,
            profile="intervals_320hz",
            received_count=received,
        )
        failed = [line.name for line in result.checks if not line.ok]
        assert check in failed, name
        assert result.reason is not None and check in result.reason


def test_no_traffic_is_no_pass() -> None:
    result = check_traffic(count=0, duration_s=10.0, nominal_hz=320, sizes={}, profile="intervals_320hz")
    assert [check.ok for check in result.checks] == [False, False]
    assert not check_rate(10, 0.0, 320.0).ok


def test_rate_tolerance_widens_below_ten_seconds() -> None:
    assert check_rate(320 * 5 - 100, 5.0, 320.0).ok
    assert not check_rate(320 * 10 - 100, 10.0, 320.0).ok
    assert check_rate(round(320 * 10 * 1.019), 10.0, 320.0).ok


def test_uplink_answers_are_part_of_the_expectation() -> None:
    shares = expected_histogram("intervals_320hz", 320, uplink=True)
    sizes = {size: round(share * 322 * 110) for size, share in shares.items()}
    result = check_traffic(
        count=sum(sizes.values()),
        duration_s=110.0,
        nominal_hz=320,
        sizes=sizes,
        profile="intervals_320hz",
        uplink=True,
    )
    assert result.ok
    assert result.checks[1].observed == pytest.approx(0.0, abs=0.001)


def test_bulk_has_one_size() -> None:
    assert verdict({1200: 35_200}, profile=None)
    assert not verdict({1200: 35_199, 1199: 1}, profile=None)


def test_json_keys_are_text() -> None:
    assert size_counts({"40": 3, "24": 1}) == {40: 3, 24: 1}


histograms = st.dictionaries(st.integers(1, 1500), st.integers(1, 1000), min_size=1, max_size=20)


@given(histograms, histograms)
def test_distance_is_a_metric_between_0_and_1(a: dict[int, int], b: dict[int, int]) -> None:
    shares_b = {size: float(count) for size, count in b.items()}
    distance = tv_distance(a, shares_b)
    assert -1e-12 <= distance <= 1 + 1e-12
    assert tv_distance(
        {k: v * 7 for k, v in a.items()}, {k: float(v) for k, v in a.items()}
    ) == pytest.approx(0.0)
    assert tv_distance(b, {k: float(v) for k, v in a.items()}) == pytest.approx(distance)


def test_disjoint_sizes_are_at_distance_one_and_nothing_has_none() -> None:
    assert tv_distance({40: 5}, {41: 1.0}) == 1.0
    with pytest.raises(ValueError, match="without datagrams"):
        tv_distance({}, {40: 1.0})


def test_profile_default_is_the_320_hz_one() -> None:
    assert load_profile().name == "intervals_320hz"
