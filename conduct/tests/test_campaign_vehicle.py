"""Waiting for the vehicle: only where it needs to fly first, never for ever, never into the first cell."""

from __future__ import annotations

from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab, once

from pqevidence.errors import LabError
from pqlab.campaign.engine import Campaign

FACTS: dict[str, Any] = {"ready": True, "sources": ["auto", "embedded", "tlog", "bulk"], "auto": "embedded"}


def test_the_embedded_vehicle_is_not_waited_for(lab: FakeLab) -> None:
    lab.drone.facts["traffic"] = FACTS
    before_s = lab.clock.monotonic_s()
    Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    assert lab.clock.monotonic_s() - before_s < 5.0 + 2.0 + 1.0


def test_arducopter_is_waited_for_before_the_first_cell(lab: FakeLab) -> None:
    started_s = lab.clock.monotonic_s()

    def fly(agent: FakeAgent, method: str, params: dict[str, Any]) -> None:
        flying = lab.clock.monotonic_s() > started_s + 90.0
        copter = {"phase": "ready" if flying else "settle", "retry_after_s": 60.0}
        agent.facts["traffic"] = {
            **FACTS,
            "ready": flying,
            "auto": "arducopter",
            "arducopter": copter,
            "sources": ["auto", "arducopter"],
        }
        if method == "prepare":
            assert flying

    lab.drone.hooks.append(fly)
    assert Campaign.begin(lab.around(), lab.scenario(1)).carry_out().verdict_counts == {"pass": 1}
    assert [line for line in lab.reporter.lines if "waiting until it hovers" in line] == [
        "ArduPilot is in phase settle; waiting until it hovers"
    ]


@pytest.mark.parametrize("phase", ["failed", "settle"])
def test_a_vehicle_that_never_flies_ends_the_run(lab: FakeLab, phase: str) -> None:
    copter = {"phase": phase, "failure": "EKF never settled" if phase == "failed" else None}
    lab.drone.facts["traffic"] = {**FACTS, "ready": False, "auto": "arducopter", "arducopter": copter}
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    assert (caught.value.code, caught.value.exit_code) == ("vehicle-not-ready", 4)
    assert "prepare" not in lab.drone.methods()


def test_a_source_that_is_not_there(lab: FakeLab) -> None:
    lab.drone.facts["traffic"] = {**FACTS, "arducopter": {"available": False, "reason": "no binary"}}
    scenario = lab.asked("traffic: {session_s: 5, source: arducopter}\n")
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), scenario).carry_out()
    assert caught.value.why == "no binary"
    assert "SITL_BINARY" in caught.value.hint


def test_a_traffic_service_that_does_not_answer(lab: FakeLab) -> None:
    lab.drone.facts["traffic"] = {"available": False, "reason": "connection refused"}
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    assert caught.value.code == "no-traffic-service"


class Flight:
    """ArduPilot at the drone's traffic service: it hovers, but for `away_s` after `lose`."""

    def __init__(self, lab: FakeLab, away_s: float = 78.0) -> None:
        self.lab, self.away_s, self.until_s = lab, away_s, 0.0
        self.begun: list[float] = []
        lab.drone.hooks.append(self.hook)

    def hook(self, agent: FakeAgent, method: str, params: dict[str, Any]) -> None:
        now_s = self.lab.clock.monotonic_s()
        flying = now_s > self.until_s
        lost = None if self.until_s == 0.0 else "arducopter ended with status -9"
        agent.facts["traffic"] = {
            **FACTS,
            "ready": flying,
            "auto": "arducopter",
            "sources": ["auto", "arducopter"],
            "arducopter": {
                "phase": "ready" if flying else "boot",
                "retry_after_s": 0 if flying else 60,
                "lost": lost,
            },
        }
        if method == "prepare" and params["cell_id"] != "warm-up":
            assert flying, "a cell began while the vehicle was not in the air"
            self.begun.append(now_s)

    def lose(self, agent: FakeAgent) -> None:
        self.until_s = self.lab.clock.monotonic_s() + self.away_s


def test_a_cell_whose_vehicle_died_is_made_again_when_it_hovers(lab: FakeLab) -> None:
    flight = Flight(lab)
    lab.script[1] = ["invalid", "pass"]
    lab.drone.hooks.append(once("event", flight.lose, kind="traffic_run", at=3))  # each cell has two windows
    assert Campaign.begin(lab.around(), lab.scenario(3)).carry_out().verdict_counts == {"pass": 3}
    assert len(flight.begun) == 4
    told = [line for line in lab.reporter.lines if "ArduPilot" in line]
    assert told[0] == (
        "ArduPilot does not hover any more (arducopter ended with status -9): it is in phase boot; "
        "waiting until it hovers"
    )
    assert len(told) == 2 and told[1].startswith("ArduPilot hovers; that took 7")
    lost_s = flight.begun[2] - flight.begun[1]
    assert lost_s <= 90.0 + 7.0, "the wait costs what the flight takes, and no cell"


def test_a_vehicle_that_landed_between_two_cells_costs_no_cell(lab: FakeLab) -> None:
    flight = Flight(lab, away_s=45.0)
    lab.drone.hooks.append(once("stop", flight.lose))
    assert Campaign.begin(lab.around(), lab.scenario(2)).carry_out().verdict_counts == {"pass": 2}
    assert len(flight.begun) == 2


def test_a_vehicle_that_never_flies_again_ends_the_run_and_keeps_its_cells(lab: FakeLab) -> None:
    flight = Flight(lab, away_s=1e6)
    lab.drone.hooks.append(once("stop", flight.lose))
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(2)).carry_out()
    assert (caught.value.code, caught.value.exit_code) == ("vehicle-not-ready", 4)
    assert "pqlab resume" in caught.value.hint
    assert len(flight.begun) == 1
