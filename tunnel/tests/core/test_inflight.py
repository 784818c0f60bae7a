"""The in-flight policy: authentic and fresh inputs only, hysteresis, dwell, never below the floor."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtunnel import suites
from pqtunnel.errors import SuiteUnknown
from pqtunnel.inflight import InflightPolicy, Policy, PolicyError, Reading

STRONG = "cs-mlkem1024-aesgcm-mldsa87"
PLAIN_SAILING = "cs-mlkem768-aesgcm-mldsa65"
CHEAP = "cs-mlkem768-chacha20poly1305-mldsa65"
SECOND = 1_000_000_000
DOCUMENT: dict[str, Any] = {
    "floor_level": 3,
    "default": PLAIN_SAILING,
    "dwell_s": 5.0,
    "stale_s": 3.0,
    "modes": [
        {"name": "lossy-link", "suite": STRONG, "when": {"loss_pct": {"above": 20, "leave_below": 10}}},
        {
            "name": "saving",
            "suite": CHEAP,
            "when": {
                "battery_pct": {"below": 30, "leave_above": 35},
                "temperature_c": {"above": 75, "leave_below": 65},
            },
        },
    ],
}


def reading(value: float, t_s: float, *, authentic: bool = True) -> Reading:
    return Reading(value, int(t_s * SECOND), authentic, "test")


def policy() -> InflightPolicy:
    return InflightPolicy(Policy.from_json(DOCUMENT), PLAIN_SAILING)


def test_a_low_battery_switches_once_and_a_full_one_switches_back() -> None:
    state = policy()
    assert not state.decide({"battery_pct": reading(31, 0)}, 0).switch
    low = state.decide({"battery_pct": reading(29, 1)}, SECOND)
    assert (low.switch, low.suite_id, low.mode) == (True, CHEAP, "saving")
    state.switched(CHEAP, SECOND)
    between = {"battery_pct": reading(33, 20), "temperature_c": reading(40, 20)}
    assert not state.decide(between, 20 * SECOND).switch, "hysteresis: 33 is neither low nor recovered"
    recovered = {"battery_pct": reading(36, 21), "temperature_c": reading(40, 21)}
    back = state.decide(recovered, 21 * SECOND)
    assert (back.switch, back.suite_id, back.mode) == (True, PLAIN_SAILING, "default")


def test_the_first_mode_in_force_wins() -> None:
    both = {"battery_pct": reading(5, 0), "loss_pct": reading(60, 0)}
    assert policy().decide(both, 0).suite_id == STRONG


@pytest.mark.parametrize(
    "unusable",
    [
        None,
        reading(5, 0, authentic=False),
        reading(5, -4),
        reading(float("nan"), 0),
        reading(-1, 0),
    ],
    ids=["missing", "unauthenticated", "stale", "not a number", "impossible"],
)
def test_an_unusable_input_neither_enters_nor_leaves_a_mode(unusable: Reading | None) -> None:
    state = policy()
    assert not state.decide({"battery_pct": unusable}, 0).switch
    state.decide({"battery_pct": reading(5, 0)}, 0)
    state.switched(CHEAP, 0)
    later = state.decide({"battery_pct": unusable, "temperature_c": reading(20, 0)}, 0)
    assert later.suite_id == CHEAP and not later.switch


def test_dwell_holds_a_switch_back_and_then_lets_it_through() -> None:
    state = policy()
    state.switched(CHEAP, 0)
    fine = {"battery_pct": reading(90, 4)}
    assert not state.decide(fine, 4 * SECOND).switch
    assert state.decide({"battery_pct": reading(90, 6)}, 6 * SECOND).switch


def test_a_failed_rekey_is_proposed_again() -> None:
    state = policy()
    for t_s in range(3):
        assert state.decide({"battery_pct": reading(5, t_s)}, t_s * SECOND).switch


@given(
    steps=st.lists(
        st.tuples(
            st.none() | st.floats(-10, 110),
            st.none() | st.floats(-80, 200),
            st.none() | st.floats(-10, 110),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_whatever_the_inputs_no_suite_lies_below_the_floor_and_switches_keep_their_distance(
    steps: list[tuple[float | None, float | None, float | None, bool]],
) -> None:
    state, last_ns, any_authentic = policy(), -(10**12), False
    for index, (battery, heat, loss, authentic) in enumerate(steps):
        now_ns = index * SECOND
        values = {"battery_pct": battery, "temperature_c": heat, "loss_pct": loss}
        given_now = {
            name: None if value is None else Reading(value, now_ns, authentic, "test")
            for name, value in values.items()
        }
        wanted = state.decide(given_now, now_ns)
        assert suites.get(wanted.suite_id).level >= 3
        any_authentic = any_authentic or authentic
        if wanted.switch:
            assert any_authentic
            assert now_ns - last_ns >= 5 * SECOND
            state.switched(wanted.suite_id, now_ns)
            last_ns = now_ns


LOSS = ["modes", 0, "when", "loss_pct"]


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (changed(["default"], "cs-mlkem512-aesgcm-mldsa44"), "below the policy's own floor 3"),
        (changed(["default"], None), "no default suite"),
        (changed(["floor_level"], 2), "floor_level"),
        (changed(["dwell_s"], 0), "dwell_s"),
        (changed(["mode"], []), "unknown key 'mode'"),
        (changed(["modes", 0, "name"], "saving"), "share a name"),
        (changed(["modes", 0, "when"], {}), "at least one input"),
        (changed(["modes", 0, "when"], {"wind_ms": {"above": 1, "leave_below": 0}}), "no input 'wind_ms'"),
        (changed(LOSS, {"above": 10}), "leave_below"),
        (changed(LOSS, {"above": 10, "leave_below": 10}), "before it enters"),
        (changed(LOSS, {"above": 101, "leave_below": 10}), "between 0 and 100"),
        (changed(LOSS, {"above": 10**400, "leave_below": 1}), "between 0 and 100"),
        (changed(LOSS, {"above": 20, "leave_below": "10"}), "leave_below must be a"),
        (changed(LOSS, {"above": True, "leave_below": 0}), "above must be a number"),
        (changed(["modes"], {"saving": {}}), "modes must be a list"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(document: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        Policy.from_json(document)


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(SuiteUnknown, match="mlkem769"):
        Policy.from_json(changed(["default"], "cs-mlkem769-aesgcm-mldsa65"))


def test_both_ends_learn_every_suite_that_may_be_asked_for() -> None:
    assert Policy.from_json(DOCUMENT).suite_ids == (PLAIN_SAILING, STRONG, CHEAP)
