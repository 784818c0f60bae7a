"""Kernel accounts from one attempt to the next: they run on while nobody looks, and tell how long."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pqevidence
from pqbase.documents import whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.host.ticks import CORES_LESS, CORES_MORE, CORES_SLACK_MS, Tick, ticks_of
from pqevidence.record.raw import ROLES, SHIFTED, RawRun
from pqevidence.record.untimed import untimed_reasons

FIELD = "system_total_ms"


@dataclass(frozen=True)
class Account:
    """What one attempt's first and last line say of all cores' time, and when; ns, ms."""

    label: str
    role: str
    first_ns: int
    first_ms: int
    last_ns: int
    last_ms: int
    restarts: bool


def run_on(cell: CellView, tally: Tally) -> None:
    """Between two attempts of a session the time of all cores grew as the clock did: an attempt that was
    taken out, and the rest drawn together over its place, leaves its time in the kernel's account."""
    tally.unit = "attempts"
    known = cell.bundle.accounts.setdefault(id(cell.run), [])
    if _asked(cell):
        for account in _accounts(cell):
            tally.see()
            known.append(account)
    if cell.cell_id == cell.bundle.last_carried_out:
        for raw in cell.bundle.runs:
            accounts = [one for one in cell.bundle.accounts.get(id(raw), []) if isinstance(one, Account)]
            for problem in _gaps(raw, accounts):
                tally.fail(problem)


def _asked(cell: CellView) -> bool:
    """Virtual time keeps no account, and another processor's is not that of its clock."""
    own = cell.run.run.get("pqlab_version") == pqevidence.__version__
    shifted = any(event.get("event") == SHIFTED for event in cell.raw.events)
    virtual = cell.run.scenario.get("ring") == "sim"
    return own and not (virtual or shifted or untimed_reasons(cell.run.hosts))


def _accounts(cell: CellView) -> list[Account]:
    restarts = bool(cell.run.condition(str(cell.plan["condition"])).get("events"))
    found = []
    for role in ROLES:
        if cell.run.host(role).get("os", "linux") != "linux":
            continue
        for folder in (cell.folder, *sorted(cell.folder.glob("attempt-*"))):
            lines = _lines(folder / f"telemetry.{role}.lp")
            ticks = [tick for tick in ticks_of(lines, "pq_cpu") if tick.whole(FIELD) is not None]
            if ticks:
                label = cell.label if folder == cell.folder else f"{cell.label} {folder.name}"
                found.append(_account(label, role, ticks[0], ticks[-1], restarts=restarts))
    return found


def _account(label: str, role: str, first: Tick, last: Tick, *, restarts: bool) -> Account:
    return Account(
        label, role, first.t_ns, first.whole(FIELD) or 0, last.t_ns, last.whole(FIELD) or 0, restarts
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _gaps(raw: RawRun, accounts: list[Account]) -> list[str]:
    begun = [whole_of(session, "started_ns") for session in raw.sessions]
    found = []
    for role in ROLES:
        cores = whole_of(raw.host(role), "cpu_count", 1)
        mine = sorted((a for a in accounts if a.role == role), key=lambda account: account.first_ns)
        for before, after in pairwise(mine):
            away = any(before.last_ns <= moment <= after.first_ns for moment in begun)
            grown_ms, wall_ms = (
                after.first_ms - before.last_ms,
                (after.first_ns - before.last_ns) / 1e6 * cores,
            )
            if away or wall_ms < 0 or (grown_ms < 0 and (before.restarts or after.restarts)):
                continue  # the controller was away; other checks look at times; the host began at nothing
            slack_ms = CORES_SLACK_MS * cores
            least_ms, most_ms = wall_ms * (1 - CORES_LESS) - slack_ms, wall_ms * (1 + CORES_MORE) + slack_ms
            if not least_ms <= grown_ms <= most_ms:
                found.append(
                    f"{FIELD} of the {role} grew by {grown_ms} ms between {before.label} and {after.label} "
                    f"(telemetry.{role}.lp of both), {wall_ms / cores:.0f} ms by their clock, {cores} cores "
                    f"of hosts/{role}.json"
                )
    return found
