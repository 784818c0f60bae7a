"""The vehicle before every session: is the asked-for source there, and is it in the air?

ArduPilot boots, settles, arms and climbs for about 80 s; that wait belongs before a cell, not into it. It may
die or land in any cell: the next one begins when it hovers again. The embedded vehicle and a replay are ready
at once.
"""

from __future__ import annotations

from collections.abc import Callable

from pqbase.documents import Json, number_of, part_of, texts_of
from pqevidence.errors import LabError
from pqevidence.scenario.model import Scenario
from pqlab.campaign.agents import Agent, AgentFailure
from pqlab.campaign.clock import Clock

#: boot, 60 s of settling, arming and climb, twice over
READY_LIMIT_S = 300.0
_LONGEST_PAUSE_S = 5.0
#: how long a traffic service that was just put back may take to answer
PUT_BACK_S = 30.0


def wait_for_vehicle(
    drone: Agent,
    scenario: Scenario,
    clock: Clock,
    note: Callable[[str], None],
    *,
    grace_s: float = 0.0,
    again: bool = False,
) -> bool:
    """Return when the scenario's source would start at once: True for one that has to fly first. Raises
    LabError (exit 4) when it will not. grace_s: how long the service may stay silent; again: it has flown
    before, so that not to hover any more is worth saying."""
    if scenario.traffic is None:
        return False
    begun_s = clock.monotonic_s()
    wanted = str(scenario.traffic["source"])
    deadline_s = clock.monotonic_s() + READY_LIMIT_S
    told = None
    while True:
        facts = _traffic_facts(drone)
        if facts.get("available") is False:
            if clock.monotonic_s() - begun_s >= grace_s:
                raise _no_service(facts)
            clock.sleep(0.5)
            continue
        _check_source(facts, wanted)
        chosen = facts.get("auto") if wanted == "auto" else wanted
        if chosen != "arducopter" or facts.get("ready", True):
            if told is not None:
                note(f"ArduPilot hovers; that took {clock.monotonic_s() - begun_s:.0f} s")
            return chosen == "arducopter"
        copter = part_of(facts, "arducopter", {})
        phase = copter.get("phase")
        if phase == "failed" or clock.monotonic_s() > deadline_s:
            raise LabError(
                "vehicle-not-ready",
                f"ArduPilot is not flying (phase {phase})",
                str(copter.get("failure") or copter.get("reason") or f"waited {READY_LIMIT_S:.0f} s"),
                "docker logs pqlab-sitl-1; or use `source: embedded` in the scenario",
            )
        if phase != told:
            lost = f"ArduPilot does not hover any more ({copter.get('lost') or 'it says no reason'}): it"
            who = lost if again and told is None else "ArduPilot"
            note(f"{who} is in phase {phase}; waiting until it hovers")
            told = phase
        clock.sleep(min(_LONGEST_PAUSE_S, max(0.5, number_of(copter, "retry_after_s", 0.0))))


def _traffic_facts(drone: Agent) -> Json:
    try:
        return part_of(drone.call("hello"), "traffic", {})
    except AgentFailure as error:
        raise error.as_lab_error() from error


def _no_service(facts: Json) -> LabError:
    return LabError(
        "no-traffic-service",
        "the vehicle's traffic service does not answer the drone agent",
        str(facts.get("reason")),
        "make lab-status, then make lab-up",
    )


def _check_source(facts: Json, wanted: str) -> None:
    if facts.get("sources") is None or wanted in (sources := texts_of(facts, "sources")):
        return
    why = part_of(facts, "arducopter", {}).get("reason") if wanted == "arducopter" else None
    raise LabError(
        "no-source",
        f"the vehicle has no traffic source `{wanted}`",
        str(why or "it offers: " + ", ".join(sources)),
        "make lab-up SITL_BINARY=/path/to/arducopter"
        if wanted == "arducopter"
        else "choose one of them as `traffic.source`",
    )
