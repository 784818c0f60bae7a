"""The vehicle before the first session: is the asked-for source there, and is it in the air yet?

ArduPilot boots, settles, arms and climbs for about two minutes; that wait belongs before the first cell, not
into it. The embedded vehicle and a replay are ready at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pqlab.campaign.agents import Agent, AgentFailure
from pqlab.campaign.clock import Clock
from pqlab.errors import LabError
from pqlab.scenario.model import Scenario

Json = dict[str, Any]
#: boot, 60 s of settling, arming and climb, twice over
READY_LIMIT_S = 300.0
_LONGEST_PAUSE_S = 5.0


def wait_for_vehicle(drone: Agent, scenario: Scenario, clock: Clock, note: Callable[[str], None]) -> None:
    """Return when the scenario's source would start at once. Raises LabError (exit 4) when it will not."""
    if scenario.traffic is None:
        return
    wanted = str(scenario.traffic["source"])
    deadline_s = clock.monotonic_s() + READY_LIMIT_S
    told = None
    while True:
        facts = _traffic_facts(drone)
        _check_source(facts, wanted)
        chosen = facts.get("auto") if wanted == "auto" else wanted
        if chosen != "arducopter" or facts.get("ready", True):
            return
        copter = facts.get("arducopter") or {}
        phase = copter.get("phase")
        if phase == "failed" or clock.monotonic_s() > deadline_s:
            raise LabError(
                "vehicle-not-ready",
                f"ArduPilot is not flying (phase {phase})",
                str(copter.get("failure") or copter.get("reason") or f"waited {READY_LIMIT_S:.0f} s"),
                "docker logs pqlab-sitl-1; or use `source: embedded` in the scenario",
            )
        if phase != told:
            note(f"ArduPilot is in phase {phase}; waiting until it hovers")
            told = phase
        clock.sleep(min(_LONGEST_PAUSE_S, max(0.5, float(copter.get("retry_after_s") or 0.0))))


def _traffic_facts(drone: Agent) -> Json:
    try:
        facts: Json = drone.call("hello").get("traffic") or {}
    except AgentFailure as error:
        raise error.as_lab_error() from error
    if facts.get("available") is False:
        raise LabError(
            "no-traffic-service",
            "the vehicle's traffic service does not answer the drone agent",
            str(facts.get("reason")),
            "make lab-status, then make lab-up",
        )
    return facts


def _check_source(facts: Json, wanted: str) -> None:
    sources = facts.get("sources")
    if sources is None or wanted in sources:
        return
    why = (facts.get("arducopter") or {}).get("reason") if wanted == "arducopter" else None
    raise LabError(
        "no-source",
        f"the vehicle has no traffic source `{wanted}`",
        str(why or "it offers: " + ", ".join(sources)),
        "make lab-up SITL_BINARY=/path/to/arducopter"
        if wanted == "arducopter"
        else "choose one of them as `traffic.source`",
    )
