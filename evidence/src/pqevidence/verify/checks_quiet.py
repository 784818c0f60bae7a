"""The machine was quiet, or the bundle says that it was not: what a run found before its first cell, and the
two readings of everybody's use that frame each window."""

from __future__ import annotations

from pqbase.documents import Json, number_of, numbers_of, part_of, parts_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.record.neighbours import EVENT, foreign_use
from pqtunnel.quiet import Probe

#: readings are of accounts that the kernel updates at its own pace
_SLACK_MS = 20.0
_SLACK_SHARE = 0.01
#: labelled by the controller and framed by no reading: nothing is measured in them
_UNFRAMED = ("key_pool", "canary", "link_probe")


def settled(bundle: BundleView, tally: Tally) -> None:
    """Each session that waited for quiet says whether it found it, as its probes do; one that found none went
    on because it was told to."""
    for session in bundle.raw.sessions:
        told = part_of(session, "settle", {})
        if not told.get("asked"):
            continue
        tally.see()
        probes = {role: Probe.from_dict(row) for role, row in parts_of(told, "probes").items()}
        if told["quiet"] is False:
            tally.require(
                bool(told.get("busy_ok")), f"went on while {told.get('why')}, and nobody allowed it"
            )
            tally.require(bool(told.get("why")), "a machine that was not quiet, and no word of why")
        for role, probe in probes.items():
            if told["quiet"] and probe.quiet is False:
                tally.fail(f"{role}: {probe.sentence}, and the run calls that quiet")


def framed(cell: CellView, tally: Tally) -> None:
    """Where the controller read who used the processors, each measured window has a reading before and one
    after it, no account runs backwards, and nobody used more than there is."""
    readings = [event for event in cell.raw.events if event.get("event") == EVENT]
    asked = any(part_of(session, "settle", {}).get("asked") for session in cell.run.sessions)
    if not readings:
        tally.require(not asked, f"{cell.label}: no reading of the processors, and the run asked for quiet")
        return
    tally.see()
    for name, start_ns, end_ns in cell.labelled():
        if name in _UNFRAMED:
            continue
        mine = {str(each.get("edge")): each for each in readings if each.get("window") == name}
        where = f"{cell.label} {name}"
        if set(mine) != {"before", "after"}:
            tally.fail(f"{where}: readings of the processors: {', '.join(sorted(mine)) or 'none'}")
            continue
        inside = int(mine["before"]["t_ns"]) <= start_ns and end_ns <= int(mine["after"]["t_ns"])
        tally.require(inside, f"{where}: the readings of the processors do not frame the window")
        if not any(each.get("reason") for each in mine.values()):
            _possible(mine["before"], mine["after"], where, tally)
            if (why := foreign_use(cell.raw.events, name)[1]) is not None:
                tally.fail(f"{where}: {why}")


def _possible(before: Json, after: Json, where: str, tally: Tally) -> None:
    wall_ms = 1e3 * (number_of(after, "mono_s") - number_of(before, "mono_s"))
    most_ms = wall_ms * (1 + _SLACK_SHARE) + _SLACK_MS
    earlier, later = numbers_of(before, "used_ms"), numbers_of(after, "used_ms")
    for core, (old, new) in enumerate(zip(earlier, later, strict=False)):
        used = new - old
        tally.require(
            0 <= used <= most_ms, f"{where}: core {core} was used for {used:.0f} of {wall_ms:.0f} ms"
        )
    cores = len(later)
    for name in ("lab_total_ms", "controller_ms", "steal_ms"):
        grown = number_of(after, name) - number_of(before, name)
        tally.require(
            0 <= grown <= most_ms * cores, f"{where}: {name} grew by {grown:.0f} in {wall_ms:.0f} ms"
        )
