"""The canary: a known attack after a cell's measured part, and which ends export what a detector sees."""

from __future__ import annotations

from typing import Final

from pqbase.documents import Json, part_of
from pqevidence.scenario.attacks import attack_events

#: a known attack after the measured part; nothing in it is measured but whether the detector says so
CANARY_WINDOW: Final = "canary"
CANARY_S: Final = 4.0
CANARY_AT_S: Final = 0.5
CANARY_FOR_S: Final = 3.0
CANARY_PPS: Final = 1000
#: an alarm of the cell's own attack may stand this long after it: ten windows of 0.6 s, five of its hold and
#: as many in which features still reach back (5.8 s were the most after simulated floods). Only traffic ends
#: it: windows without a datagram are not judged
ALARM_ENDS_S: Final = 6.0
#: kind of event by which the drone's agent sends it
AGENT_CANARY: Final = "canary"


def canary_lead_s(condition: Json) -> float:
    """How long the canary window's traffic runs before its attack: after an attack of the cell's own until no
    alarm of that can stand, so that the canary's is a fresh one."""
    return CANARY_AT_S + (ALARM_ENDS_S if attack_events(condition) else 0.0)


def canary_s(condition: Json) -> float:
    """Length of the canary window; 0 where no detector watches."""
    if condition.get("detector", "none") == "none":
        return 0.0
    return CANARY_S - CANARY_AT_S + canary_lead_s(condition)


def fed_roles(condition: Json) -> frozenset[str]:
    """The ends that export what crosses their sealed side: the drone where a detector watches, something
    attacks or the condition says so, and the end that is attacked."""
    targets = {str(part_of(event, "attack").get("target", "drone")) for event in attack_events(condition)}
    watched = condition.get("detector", "none") != "none" or bool(condition.get("feed"))
    return frozenset({"drone", *targets} if watched or targets else ())


def canary_condition(condition: Json, *, by_agent: bool = False) -> Json:
    """What happens in the canary window, and nothing else: packets with forged headers at the drone, from the
    attacker on the air; `by_agent`: with a header that does not exist, from the drone's own agent, where
    there is no attacker."""
    event: Json = {"at_s": canary_lead_s(condition), "kind": "attack", "for_s": CANARY_FOR_S}
    if by_agent:
        event |= {"kind": AGENT_CANARY, "rate_pps": CANARY_PPS}
    else:
        event["attack"] = {"kind": "forged", "rate_pps": CANARY_PPS, "target": "drone", "path": "direct"}
    quiet = {"link": "none", "attack": "none", "policy": "none", "rekey": "none"}
    return {**condition, **quiet, "events": [event]}
