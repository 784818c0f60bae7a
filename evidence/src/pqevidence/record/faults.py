"""Faults that a condition asks for: whom they took, how long they lasted, when the session was whole again.

A fault on purpose is no fault of its cell. An end that was killed has no ledger and no samples, and none are
due; a sampler that was stopped owes no samples while it stood still. What is due is the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pqbase.documents import rows_of
from pqevidence.record.ledger import Ledger
from pqevidence.record.raw import ROLES, Json, RawCell
from pqevidence.record.verdict import CYCLED

KILL, STALL, CYCLE = "peer_kill", "sensor_stall", "power_cycle"
#: faults after which packets have to flow again, and the ends whose arrivals tell
_CUTS = {"partition": ROLES, "ground_pause": ("drone",)}


@dataclass(frozen=True)
class Recovery:
    """One fault that took place. recovery_ms: from its end (a kill: from the kill) until all is as before;
    None with a reason where that is not known."""

    kind: str
    role: str | None
    at_s: float
    for_s: float | None
    recovery_ms: float | None
    reason: str | None
    until: str


def asked(condition: Mapping[str, object], kind: str) -> bool:
    """Does the condition have an event of this kind?"""
    return any(event.get("kind") == kind for event in rows_of(condition, "events", []))


def killed_roles(events: list[Json], condition: Mapping[str, object]) -> frozenset[str]:
    """Ends that were killed because the condition says so."""
    if not asked(condition, KILL):
        return frozenset()
    return frozenset(str(event.get("role")) for event in _timed(events) if event.get("timed") == KILL)


def killed_unasked(events: list[Json], condition: Mapping[str, object]) -> Iterator[str]:
    """What the controller says of an end whose container somebody killed, though the condition asks for no
    kill, a sentence each: such a cell says nothing of the tunnel."""
    if asked(condition, KILL):
        return
    for event in events:
        if event.get("host") == "controller" and event.get("event") == "error" and event.get("killed"):
            yield str(event.get("reason") or "no reason given")


def power_cycles(events: list[Json], condition: Mapping[str, object]) -> Iterator[str]:
    """What was done to the power of an end because the condition says so, a sentence each: what that end held
    is gone, and it is not given its orders again."""
    if not asked(condition, CYCLE):
        return
    for event in _timed(events):
        if event.get("timed") == CYCLE:
            role, place = event.get("role"), (event.get("result") or {}).get("place")
            yield f"the power of the {role} was cycled at {float(event['at_s']):g} s (place {place})"


def power_cycled(record: Json) -> bool:
    """Whether a record is invalid because its condition cycles the power of an end: another attempt would be,
    too."""
    told = record.get("categories", {}).get("R", {}).get("verdict_findings", {}).get("value") or {}
    return record.get("verdict") == "invalid" and CYCLED in told


def stalls_ns(events: list[Json], condition: Mapping[str, object], role: str) -> list[tuple[int, int]]:
    """Spans in which this end's sampler was stopped because the condition says so, by that end's clock. One
    that never ended is left out."""
    if not asked(condition, STALL):
        return []
    mine = [event for event in events if event.get("host") == role]
    begun: int | None = None
    spans = []
    for event in sorted(mine, key=lambda event: int(event["t_ns"])):
        if event.get("event") == STALL:
            begun = int(event["t_ns"])
        elif event.get("event") == f"{STALL}_end" and begun is not None:
            spans.append((begun, int(event["t_ns"])))
            begun = None
    return spans


def stalled_ns(
    events: list[Json], condition: Mapping[str, object], role: str, span_ns: tuple[int, int]
) -> int:
    """How much of a span that end's sampler stood still for."""
    spans = stalls_ns(events, condition, role)
    return sum(max(0, min(end, span_ns[1]) - max(start, span_ns[0])) for start, end in spans)


def failed_redials(cell: RawCell, completed: int) -> int:
    """Dials after silence that made no session; completed: those that did."""
    return max(0, len(_redials(cell)) - completed)


def silence(cell: RawCell, failed: int, start_ns: int | None) -> str | None:
    """What the drone noticed when nothing came any more and dialling did not help at once; None where it did
    not have to. start_ns: opening of the traffic window by the drone's clock."""
    if failed == 0:
        return None
    redials = _redials(cell)
    first_ns = int(redials[0]["t_ns"])
    when = "" if start_ns is None else f" at {(first_ns - start_ns) / 1e9:.1f} s of the traffic window"
    reasons = [
        str(event["reason"])
        for event in cell.events
        if event.get("host") == "drone"
        and event.get("event") == "handshake_failed"
        and event.get("reason")
        and int(event["t_ns"]) >= first_ns
    ]
    last = f" (last: {reasons[-1]})" if reasons else ""
    return (
        f"the drone heard nothing for 3 s{when}: the ground or the way to it stood still; "
        f"{failed} of {len(redials)} dials after it failed{last}"
    )


def recoveries(cell: RawCell, ticks_ns: Mapping[str, list[int]], *, one_clock: bool) -> Iterator[Recovery]:
    """Every fault of the cell that took place, in the order of events. ticks_ns: times of each end's samples;
    one_clock: both ends and the controller read the same clock."""
    for event in _timed(cell.events):
        kind, role = str(event["timed"]), event.get("role")
        at_s, for_s = float(event.get("at_s") or 0.0), event.get("for_s")
        until: str
        if kind == KILL:
            until, found, why = "a session again", *_returned(cell.events, event)
        elif kind == STALL:
            until, found, why = "a sample again", *_sampled(cell.events, event, ticks_ns.get(str(role)) or [])
        elif kind in _CUTS:
            until = "datagrams again"
            found, why = _flowing(cell.ledgers, event, _CUTS[kind], one_clock=one_clock)
        else:
            continue
        yield Recovery(kind, role, at_s, None if for_s is None else float(for_s), found, why, until)


def _timed(events: list[Json]) -> list[Json]:
    return [e for e in events if e.get("event") == "timed_event" and e.get("ok") and e.get("timed")]


def _redials(cell: RawCell) -> list[Json]:
    return [e for e in cell.events if e.get("host") == "drone" and e.get("event") == "redial"]


def _returned(events: list[Json], kill: Json) -> tuple[float | None, str | None]:
    for event in events:
        mine = event.get("event") == "recovered" and event.get("role") == kill.get("role")
        if mine and int(event["t_ns"]) >= int(kill["t_ns"]):
            return float(event["recovery_ms"]), None
    return None, "it did not come back"


def _sampled(events: list[Json], stall: Json, ticks_ns: list[int]) -> tuple[float | None, str | None]:
    role = stall.get("role")
    ends = [int(e["t_ns"]) for e in events if e.get("host") == role and e.get("event") == f"{STALL}_end"]
    begun_ns = int(stall["t_ns"])
    end_ns = min((end for end in ends if end >= begun_ns), default=None)
    if end_ns is None:
        return None, "it lasted to the end of the cell"
    first_ns = min((tick for tick in ticks_ns if tick >= end_ns), default=None)
    return (None, "no sample after it") if first_ns is None else ((first_ns - end_ns) / 1e6, None)


def _flowing(
    ledgers: dict[str, Ledger], cut: Json, roles: tuple[str, ...], *, one_clock: bool
) -> tuple[float | None, str | None]:
    if not one_clock:
        return None, "the ends' clocks are not the controller's"
    if any(role not in ledgers for role in roles):
        return None, "no ledger of both ends"
    end_ns = int(cut["t_ns"]) + round(1e9 * float(cut.get("for_s") or 0.0))
    firsts = [min((t for t in ledgers[role].rx.t_out_ns if t >= end_ns), default=None) for role in roles]
    known = [first for first in firsts if first is not None]
    if len(known) < len(roles):
        return None, "nothing came after it in this cell"
    return (max(known) - end_ns) / 1e6, None
