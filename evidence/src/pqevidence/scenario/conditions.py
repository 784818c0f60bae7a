"""What a condition of an effective scenario does to the link, asked in one way everywhere."""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import Json, part_of, rows_of, texts_of
from pqevidence.scenario.attacks import attacks_over_link

#: keys of a condition that say where it applies, not what happens in its cells: no part of a cell's identity
SCOPE_KEYS = ("suites", "repetitions")
#: keys of a direction that set nothing by themselves
_SHAPES = ("distribution", "queue_ms")


def settings_of(condition: Mapping[str, object]) -> Json:
    """The condition without its scope: what decides the result of its cells."""
    return {key: value for key, value in condition.items() if key not in SCOPE_KEYS}


#: what a condition without a detector names
NO_DETECTOR = "none"


def detector_of(condition: Mapping[str, object]) -> str:
    """The detector that a condition names, or NO_DETECTOR."""
    return str(condition.get("detector", NO_DETECTOR))


def without(condition: Mapping[str, object]) -> frozenset[str]:
    """Observers that stand still in the cells of this condition."""
    return frozenset(texts_of(condition, "without", []))


def keeps_ledger(scenario: Mapping[str, object], condition: Mapping[str, object]) -> bool:
    """Do both ends keep a row a datagram in the cells of this condition?"""
    return bool(scenario.get("ledger", True)) and "ledger" not in without(condition)


def keeps_flight_log(scenario: Mapping[str, object]) -> bool:
    """Does the ground keep the MAVLink frames of each session that it receives?"""
    return bool(part_of(scenario, "traffic", {}).get("tlog"))


def workload_of(scenario: Mapping[str, object]) -> list[Json]:
    """What the ground station asks of the vehicle in each session; [] where it asks nothing."""
    return list(rows_of(part_of(scenario, "traffic", {}), "workload", []))


def observers_vary(scenario: Mapping[str, object]) -> bool:
    """Does any condition leave an observer out, so that every cell accounts for what each one used?"""
    return any(without(condition) for condition in rows_of(scenario, "conditions", []))


def routed(condition: Mapping[str, object]) -> bool:
    """Does the traffic go through the link router?"""
    return isinstance(condition.get("link"), Mapping) or any(
        event.get("kind") in ("link", "partition") for event in rows_of(condition, "events", [])
    )


def traces_of(condition: Mapping[str, object]) -> dict[str, Json]:
    """Direction → its `trace` block, of the directions that have one."""
    link = condition.get("link")
    if not isinstance(link, Mapping):
        return {}
    return {way: side["trace"] for way in ("up", "down") if (side := link.get(way) or {}).get("trace")}


def sets_something(link: object) -> bool:
    """Does this `link` block change any direction?"""
    if not isinstance(link, Mapping):
        return False
    return any(
        bool(value)
        for side in ("up", "down")
        for key, value in (link.get(side) or {}).items()
        if key not in _SHAPES
    )


def is_control(condition: Mapping[str, object]) -> bool:
    """The link-0 control: router in the path, nothing set."""
    return routed(condition) and not impairs(condition)


def impairs(condition: Mapping[str, object]) -> bool:
    """May datagrams be lost, late, doubled or out of order here by the scenario's own will?

    An attack on the direct path is no such reason: there the session must lose nothing.
    """
    return (
        sets_something(condition.get("link"))
        or any(event.get("kind") in ("link", "partition") for event in rows_of(condition, "events", []))
        or attacks_over_link(condition)
    )
