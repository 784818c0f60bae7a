"""What the ground asked of the vehicle in the traffic window, and how long until it was acknowledged: part of
category J.

Times are the ground's monotonic clock alone, as are the spans of its rekeys, so that no two clocks are
compared. A command counts as during a rekey where the time from its sending to its acknowledgement meets a
rekey handshake at the ground; one without an acknowledgement, where its sending does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pqbase.documents import part_of
from pqbase.stats import tail
from pqevidence.record.context import NO_WINDOW
from pqevidence.record.dataplane import TRAFFIC
from pqevidence.record.facts import Facts
from pqevidence.record.raw import Json, Span
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import few, median
from pqevidence.scenario.conditions import workload_of
from pqsitl.steps import CUT, NOT_DUE

#: kinds that one COMMAND_LONG carries and one COMMAND_ACK answers
COMMANDS = ("command", "mode", "auto")
NONE_ASKED = "the scenario asks nothing of the vehicle"
NO_WORKLOAD = "the ground's source left no account of it"
NO_REKEY = "no command met a rekey"
REKEY = "rekey"


@dataclass(frozen=True)
class Asked:
    """One exchange of the workload; times in ns of the ground's monotonic clock, None for none."""

    step: int
    number: int
    kind: str
    due_ns: int
    sent_ns: int | None
    acknowledged_ns: int | None
    result: int | None
    retries_count: int
    items_count: int
    reason: str | None

    @property
    def ack_ms(self) -> float | None:
        """From its first sending to its acknowledgement."""
        if self.sent_ns is None or self.acknowledged_ns is None:
            return None
        return (self.acknowledged_ns - self.sent_ns) / 1e6

    @property
    def cut(self) -> bool:
        """Did the session end first? Then nothing is known of its answer."""
        return self.reason in (CUT, NOT_DUE)

    @property
    def unanswered(self) -> bool:
        """Did its time run out?"""
        return self.acknowledged_ns is None and not self.cut

    @property
    def refused(self) -> bool:
        """Did the vehicle answer anything but 'accepted'?"""
        return self.acknowledged_ns is not None and self.result != 0


def account_of(traffic: Mapping[str, object] | None) -> Json | None:
    """Part `workload` of the ground's report in the traffic window; None where there is none."""
    window = part_of(traffic or {}, TRAFFIC, {})
    found = part_of(part_of(window, "gcs", {}), "source_report", {}).get("workload")
    return dict(found) if isinstance(found, dict) else None


def asked_of(traffic: Mapping[str, object] | None) -> list[Asked] | None:
    """Every exchange in the order of steps; None where the ground left no account."""
    account = account_of(traffic)
    return None if account is None else [_asked(row) for row in account.get("rows") or []]


def _asked(row: Json) -> Asked:
    def at(name: str) -> int | None:
        return None if row.get(name) is None else int(row[name])

    return Asked(
        step=int(row["step"]),
        number=int(row["number"]),
        kind=str(row["kind"]),
        due_ns=int(row["due_ns"]),
        sent_ns=at("sent_ns"),
        acknowledged_ns=at("acknowledged_ns"),
        result=at("result"),
        retries_count=int(row["retries_count"]),
        items_count=int(row["items_count"]),
        reason=None if row.get("reason") is None else str(row["reason"]),
    )


def rekey_spans(spans: list[Span]) -> list[tuple[int, int]]:
    """Begin and end of each rekey handshake at the ground, ns of its monotonic clock."""
    found: dict[str, tuple[int, int]] = {}
    for span in spans:
        if span.mode == REKEY and span.host == "gcs":
            low, high = found.get(span.handshake_id, (span.start_ns, span.end_ns))
            found[span.handshake_id] = (min(low, span.start_ns), max(high, span.end_ns))
    return sorted(found.values())


def meets_rekey(one: Asked, rekeys: list[tuple[int, int]]) -> bool:
    """Was a rekey under way between the exchange's sending and its acknowledgement? One without an
    acknowledgement is taken at its sending."""
    if one.sent_ns is None:
        return False
    end_ns = one.sent_ns if one.acknowledged_ns is None else one.acknowledged_ns
    return any(one.sent_ns <= high and low <= end_ns for low, high in rekeys)


def fill(sheet: Sheet, facts: Facts) -> None:
    """Category J, fields of the workload."""
    cell, scenario = facts.cell, facts.context.scenario
    asked = asked_of(cell.traffic) if workload_of(scenario) else None
    absent = NO_WORKLOAD if workload_of(scenario) else NONE_ASKED
    if (cell.traffic or {}).get(TRAFFIC) is None:
        asked, absent = None, NO_WINDOW
    known = asked or []
    counts = {
        "planned": len(known),
        "sent": sum(one.sent_ns is not None for one in known),
        "acknowledged": sum(one.acknowledged_ns is not None for one in known),
        "unanswered": sum(one.unanswered for one in known),
        "cut": sum(one.cut for one in known),
        "refused": sum(one.refused for one in known),
        "retries": sum(one.retries_count for one in known),
    }
    for name, count in counts.items():
        sheet.put("J", f"workload_{name}_count", None if asked is None else count, absent=absent)
    rekeys = rekey_spans(cell.spans or [])
    commands = [one for one in known if one.kind in COMMANDS and one.ack_ms is not None]
    met = [one for one in commands if meets_rekey(one, rekeys)]
    for prefix, members, none in (
        ("command", commands, "no command was acknowledged"),
        ("command_rekey", met, NO_REKEY),
    ):
        values = [one.ack_ms for one in members if one.ack_ms is not None]
        why = absent if asked is None else none
        sheet.put("J", f"{prefix}_ack_p50_ms", median(values), n=len(values), absent=why)
        sheet.put(
            "J", f"{prefix}_ack_p95_ms", tail(values, 0.95), n=len(values), absent=few(values, 0.95, why)
        )
        sheet.put("J", f"{prefix}_ack_max_ms", max(values, default=None), n=len(values), absent=why)
    for kind, field in (("mission_upload", "mission_upload_ms"), ("param_download", "parameter_download_ms")):
        values = [one.ack_ms for one in known if one.kind == kind and one.ack_ms is not None]
        why = absent if asked is None else f"no {kind} was completed"
        sheet.put("J", field, median(values), n=len(values), absent=why)
