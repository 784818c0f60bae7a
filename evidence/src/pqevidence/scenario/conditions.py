"""What a condition of an effective scenario does to the link, asked in one way everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pqevidence.scenario.attacks import attacks_over_link

#: keys of a condition that say where it applies, not what happens in its cells: no part of a cell's identity
SCOPE_KEYS = ("suites", "repetitions")
#: keys of a direction that set nothing by themselves
_SHAPES = ("distribution", "queue_ms")


def settings_of(condition: Mapping[str, Any]) -> dict[str, Any]:
    """The condition without its scope: what decides the result of its cells."""
    return {key: value for key, value in condition.items() if key not in SCOPE_KEYS}


#: what a condition without a detector names
NO_DETECTOR = "none"


def detector_of(condition: Mapping[str, Any]) -> str:
    """The detector that a condition names, or NO_DETECTOR."""
    return str(condition.get("detector", NO_DETECTOR))


def without(condition: Mapping[str, Any]) -> frozenset[str]:
    """Observers that stand still in the cells of this condition."""
    return frozenset(condition.get("without") or ())


def keeps_ledger(scenario: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Do both ends keep a row a datagram in the cells of this condition?"""
    return bool(scenario.get("ledger", True)) and "ledger" not in without(condition)


def keeps_flight_log(scenario: Mapping[str, Any]) -> bool:
    """Does the ground keep the MAVLink frames of each session that it receives?"""
    return bool((scenario.get("traffic") or {}).get("tlog"))


def workload_of(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the ground station asks of the vehicle in each session; [] where it asks nothing."""
    return list((scenario.get("traffic") or {}).get("workload") or [])


def observers_vary(scenario: Mapping[str, Any]) -> bool:
    """Does any condition leave an observer out, so that every cell accounts for what each one used?"""
    return any(without(condition) for condition in scenario.get("conditions") or [])


def routed(condition: Mapping[str, Any]) -> bool:
    """Does the traffic go through the link router?"""
    return isinstance(condition.get("link"), Mapping) or any(
        event.get("kind") in ("link", "partition") for event in condition.get("events") or []
    )


def traces_of(condition: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Direction → its `trace` block, of the directions that have one."""
    link = condition.get("link")
    if not isinstance(link, Mapping):
        return {}
    return {way: side["trace"] for way in ("up", "down") if (side := link.get(way) or {}).get("trace")}


def sets_something(link: Any) -> bool:
    """Does this `link` block change any direction?"""
    if not isinstance(link, Mapping):
        return False
    return any(
        bool(value)
        for side in ("up", "down")
        for key, value in (link.get(side) or {}).items()
        if key not in _SHAPES
    )


def is_control(condition: Mapping[str, Any]) -> bool:
    """The link-0 control: router in the path, nothing set."""
    return routed(condition) and not impairs(condition)


def impairs(condition: Mapping[str, Any]) -> bool:
    """May datagrams be lost, late, doubled or out of order here by the scenario's own will?

    An attack on the direct path is no such reason: there the session must lose nothing.
    """
    return (
        sets_something(condition.get("link"))
        or any(event.get("kind") in ("link", "partition") for event in condition.get("events") or [])
        or attacks_over_link(condition)
    )
