"""Packets that carry no data: what one end sent of them, the other received."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.traffic.checks import lossy
from pqevidence.record.raw import ROLES, Json
from pqevidence.record.untimed import untimed_reasons
from pqevidence.scenario.attacks import attacked

#: what may be under way when an end stops, or comes while the other is not ready
STRAY_COUNT, STRAY_SHARE = 10, 0.1
KINDS = ("keepalive", "epoch_ack")


def agree(cell: CellView, tally: Tally) -> None:
    """Keepalives and answers to new epochs arrived where nothing impairs the link: numbers that they take are
    numbers of packets, and hide none that carried data. Not in windows of a ladder, which may be too much."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    if cell.impaired or attacked(condition) or condition.get("events") or untimed_reasons(cell.run.hosts):
        return  # where another machine plays one, its answers may come when the next handshake has begun
    windows = {role: cell.windows(role) for role in ROLES}
    asked = [name for name in windows[ROLES[0]] if not lossy(cell, name)]
    # what was sent in a window that is not asked may arrive in the next
    late = 0 if len(asked) == len(windows[ROLES[0]]) else STRAY_COUNT
    for sender, receiver in (ROLES, ROLES[::-1]):
        for kind in KINDS:
            sent = _sum(windows[sender], asked, f"tx_{kind}")
            got = _sum(windows[receiver], asked, f"rx_{kind}")
            if sent is None or got is None:
                continue
            tally.see()
            tally.require(
                sent - STRAY_COUNT - STRAY_SHARE * sent <= got <= sent + late,
                f"{cell.label}: tx_{kind} of the {sender} is {sent}, rx_{kind} of the {receiver} {got} "
                "(counters.json)",
            )
    tally.unit = "counters"


def _sum(windows: Mapping[str, Json], asked: Iterable[str], name: str) -> int | None:
    """A counter over some windows; None where one of them does not have it."""
    counts = [(windows.get(window) or {}).get(name) for window in asked]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == len(counts) else None
