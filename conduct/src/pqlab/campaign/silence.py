"""Before the first cell: wait until the machines are quiet, then a warm-up that nobody records.

What counts is what a thread of the lab would wait for a processor (`pqtunnel.quiet.probe`, made by both
agents at once) and what neighbours use meanwhile, never the load average. A run that finds no quiet within
its time ends, or goes on by `--busy-ok` and says so first wherever it prints anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pqbase.documents import Json, part_of
from pqevidence.errors import LabError
from pqevidence.record.neighbours import EVENT, Use, foreign_use
from pqevidence.record.raw import ROLES
from pqevidence.record.untimed import untimed_reasons
from pqlab.campaign.agents import AgentFailure, Pair
from pqlab.campaign.settle import HELLO_S
from pqlab.campaign.surroundings import Surroundings
from pqtunnel.quiet import Probe

SETTLE_S: Final = 60.0
#: a build or a start has pauses; so many probes of half a second each must be quiet one after another
IN_A_ROW: Final = 3
_PAUSE_S: Final = 0.5
_WINDOW: Final = "settle"
_NAMES: Final = {"drone": "the drone", "gcs": "the ground station"}


def wait_for_quiet(around: Surroundings, pair: Pair, hello: Mapping[str, Json]) -> Json:
    """{"asked", "quiet", "why", "waited_s", "limit_s", "busy_ok", "probes"} for run.json.

    `quiet` is None where nobody can tell. Raises LabError on a machine that stays busy, unless that is
    allowed.
    """
    if around.settle_s is None:
        return {"asked": False, "reason": "this run keeps a clock of its own: no machine disturbs it"}
    if reasons := untimed_reasons(hello):
        return {"asked": False, "reason": f"no time of this run is a claim: {'; '.join(reasons)}"}
    begun_s = around.clock.monotonic_s()
    quiet_count, told = 0, False
    while True:
        probes, use = _look(around, pair)
        why = busy_because(probes, use)
        quiet_count = 0 if why else quiet_count + 1
        waited_s = around.clock.monotonic_s() - begun_s
        if quiet_count >= IN_A_ROW:
            known = any(probe.quiet is not None for probe in probes.values())
            return _document(around, waited_s, probes, quiet=True if known else None, why=None)
        if why and waited_s >= around.settle_s:
            break
        if why and not told:
            around.reporter.note(f"waiting for a quiet machine, {around.settle_s:g} s at most: {why}")
            told = True
        around.clock.sleep(_PAUSE_S if why else 0.0)
    if not around.busy_ok:
        raise LabError(
            "machine-busy",
            f"the machine was not quiet within {waited_s:.0f} s: {why}",
            "times measured now would be those of other programs",
            "let other work end and run again, or go on with --busy-ok (what is disturbed becomes invalid)",
        )
    around.reporter.note(f"busy machine: {why}; going on, as --busy-ok says")
    return _document(around, waited_s, probes, quiet=False, why=why)


def busy_because(probes: Mapping[str, Probe], use: Use | None) -> str | None:
    """One sentence that says which end would wait and how much others use; None of a quiet machine."""
    parts = [
        f"at {_NAMES[role]} {probes[role].sentence}"
        for role in ROLES
        if role in probes and probes[role].quiet is False
    ]
    if use is not None:
        parts += [text for text in (*(use.crowded(role) for role in ROLES), use.stolen()) if text]
    return "; ".join(dict.fromkeys(parts)) or None


def _look(around: Surroundings, pair: Pair) -> tuple[dict[str, Probe], Use | None]:
    events = [_reading(around, "before")]
    try:
        answers = pair.both("hello", {"probe": True}, timeout_s=HELLO_S)
    except AgentFailure as error:
        raise error.as_lab_error() from error
    events.append(_reading(around, "after"))
    probes = {role: Probe.from_dict(part_of(answer, "quiet")) for role, answer in answers.items()}
    return probes, foreign_use(events, _WINDOW)[0]


def _reading(around: Surroundings, edge: str) -> Json:
    told = around.neighbours.reading()
    if not told:
        return {}
    return {"event": EVENT, "window": _WINDOW, "edge": edge, "mono_s": around.clock.monotonic_s(), **told}


def _document(
    around: Surroundings, waited_s: float, probes: Mapping[str, Probe], *, quiet: bool | None, why: str | None
) -> Json:
    return {
        "asked": True,
        "quiet": quiet,
        "why": why,
        "waited_s": round(waited_s, 3),
        "limit_s": around.settle_s,
        "busy_ok": around.busy_ok,
        "probes": {role: probe.as_dict() for role, probe in probes.items()},
    }
