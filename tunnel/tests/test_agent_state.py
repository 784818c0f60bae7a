"""The agent's states and its watchdog."""

from __future__ import annotations

import pytest

from pqtunnel.agent.state import WATCHDOG_S, BadStateError, CellState


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_one_way_round() -> None:
    state = CellState()
    assert state.state == "idle"
    state.enter("prepared", cell_id="a", since=("idle",))
    state.enter("running", since=("prepared",))
    state.enter("draining", since=("prepared", "running"))
    state.enter("idle", since=("draining",))
    assert state.cell_id == "a"


def test_wrong_state_says_what_to_do() -> None:
    state = CellState()
    state.enter("prepared", cell_id="a", since=("idle",))
    with pytest.raises(BadStateError) as caught:
        state.enter("prepared", cell_id="b", since=("idle",))
    assert caught.value.code == "bad_state"
    assert "start" in caught.value.hint and "a" in caught.value.hint
    with pytest.raises(BadStateError):
        state.require("event", "a", "running")


def test_another_cell_is_refused() -> None:
    state = CellState()
    state.enter("prepared", cell_id="a", since=("idle",))
    with pytest.raises(BadStateError) as caught:
        state.require("start", "b", "prepared")
    assert caught.value.code == "unknown_cell"
    assert "a" in caught.value.hint


def test_watchdog_expires_only_while_a_cell_is_held_and_nobody_speaks() -> None:
    clock = Clock()
    state = CellState(clock)
    clock.now += 10 * WATCHDOG_S
    assert not state.expired()  # idle never expires
    state.touch()
    state.enter("prepared", cell_id="a", since=("idle",))
    clock.now += WATCHDOG_S - 1
    assert not state.expired()
    clock.now += 2
    assert state.expired()
    state.touch()
    assert not state.expired()


def test_a_long_call_is_activity() -> None:
    clock = Clock()
    state = CellState(clock)
    state.enter("prepared", cell_id="a", since=("idle",))
    state.enter("running", since=("prepared",))
    with state.activity():
        clock.now += 10 * WATCHDOG_S
        assert not state.expired()
    assert not state.expired()  # its end counts as a sign of life
    clock.now += WATCHDOG_S + 1
    assert state.expired()
