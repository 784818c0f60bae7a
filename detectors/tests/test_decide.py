"""Decision rules: the streaming form and the array form are the same thing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqdetect.decide import Decider, Rule, decide

RULES = st.builds(
    lambda on, gap, need, extra, hold: Rule(on, on - gap, need, need + extra, hold),
    st.sampled_from([0.3, 0.5, 0.9]),
    st.sampled_from([0.0, 0.2]),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 4),
)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=25), max_size=4), RULES)
def test_arrays_say_what_the_stream_says(streams: list[list[float]], rule: Rule) -> None:
    expected = []
    starts = []
    for stream in streams:
        decider = Decider(rule)
        for place, score in enumerate(stream):
            expected.append(decider.step(score))
            starts.append(place == 0)
    scores = np.array([score for stream in streams for score in stream], dtype=np.float64)
    assert decide(scores, np.array(starts, dtype=np.bool_), rule).tolist() == expected


def test_one_spike_is_not_two_of_three() -> None:
    rule = Rule(0.5, 0.25, need=2, among=3, hold=2)
    scores = np.array([0, 0.9, 0, 0, 0.9, 0, 0.9, 0.3, 0, 0, 0.0])
    starts = np.arange(len(scores)) == 0
    assert decide(scores, starts, rule).tolist() == [False] * 6 + [True] * 3 + [False] * 2


def test_reset_forgets_a_standing_alarm() -> None:
    decider = Decider(Rule(0.5, 0.5))
    assert decider.step(1.0)
    decider.reset()
    assert not decider.alarm
    assert not decider.step(0.0)


@pytest.mark.parametrize(
    "bad",
    [{"need": 0}, {"need": 3, "among": 2}, {"hold": 0}, {"on": 0.2, "off": 0.4}],
    ids=lambda bad: str(bad),
)
def test_rules_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a rule needs"):
        Rule.of({"on": 0.5, "off": 0.4, "need": 1, "among": 1, "hold": 1} | bad)


def test_a_rule_survives_its_card() -> None:
    rule = Rule(0.75, 0.3, 2, 3, 4)
    assert Rule.of(rule.as_dict()) == rule
