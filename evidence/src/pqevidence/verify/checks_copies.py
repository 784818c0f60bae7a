"""Nothing was measured twice, and nothing between: times that repeat to the nanosecond are copies, and a hole
as long as an attempt is an attempt that is gone."""

from __future__ import annotations

import hashlib
from array import array
from itertools import pairwise
from pathlib import Path

from pqbase.documents import Json, number_of, part_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.record.raw import RawRun, attempts_in, read_ndjson
from pqevidence.record.untimed import untimed_reasons
from pqevidence.scenario.attacks import attacked
from pqevidence.scenario.conditions import detector_of, routed

#: steps of one handshake that must all be equal before it is called a copy
LEAST_STEPS = 8
#: datagrams in a row whose latencies must all be equal
LEAST_DATAGRAMS = 32
#: what a controller does between two attempts: records, folders, agents
IDLE_S = 4.0
#: virtual time does not pass there
IDLE_VIRTUAL_S = 0.1
#: from the first look at the machine to the first cell, beside what `settle` tells: the warm-up; a handshake
#: on a processor that is played, or detectors that are started
BEGIN_S, BEGIN_SLOW_S = 15.0, 120.0
#: the router or the attacker is started before the first cell of a session that asks for it
START_S = 30.0
#: from the last cell to the end of the run: the database is asked for every series of every cell
END_S, END_CELL_S = 30.0, 0.5
#: the vehicle may boot, arm and climb before the first cell
VEHICLE = "arducopter"


def once(cell: CellView, tally: Tally) -> None:
    """No handshake has all its step times, and no 32 datagrams in a row all their latencies, in common with
    others of this bundle: to the nanosecond, a machine does nothing twice."""
    tally.see()
    seen = cell.bundle.seen_times
    copied: dict[str, list[str]] = {}
    walls: dict[str, dict[str, list[int]]] = {}
    for (_, handshake_id, host), spans in cell.groups:
        steps = [span.end_ns - span.start_ns for span in spans]
        walls.setdefault(handshake_id, {}).setdefault(host, []).extend(steps)
    for handshake_id, hosts in walls.items():
        for host, steps in hosts.items():
            if len(steps) - steps.count(0) >= LEAST_STEPS:
                where = f"{cell.label}, spans.ndjson, {host} {handshake_id}"
                if before := _seen(seen, f"{host} {steps}".encode(), where):
                    copied.setdefault("handshakes", []).append(f"{host} {handshake_id} = {before}")
    for direction, join in (("down", cell.plane.down), ("up", cell.plane.up)):
        for window, joined in (join.windows if join else {}).items():
            took = joined.latency_ns
            for at in range(0, len(took) - LEAST_DATAGRAMS + 1, LEAST_DATAGRAMS):
                part: array[int] = took[at : at + LEAST_DATAGRAMS]
                if len(set(part)) >= LEAST_STEPS:
                    where = f"{cell.label}, ledgers, {window} {direction} from datagram {at}"
                    if before := _seen(seen, part.tobytes(), where):
                        copied.setdefault("datagrams", []).append(f"{window} {direction} {at} = {before}")
    for what, found in copied.items():
        tally.fail(f"{cell.label}: {len(found)} times the same nanoseconds of {what}, the first: {found[0]}")


def _seen(seen: dict[bytes, str], content: bytes, where: str) -> str | None:
    """Where the same was seen before; None where nowhere. Two places may have one name, which does not tell
    the condition of a cell."""
    key = hashlib.blake2b(content, digest_size=12).digest()
    if key in seen:
        return seen[key]
    seen[key] = where
    return None


def idle(bundle: BundleView, tally: Tally) -> None:
    """Within a session attempts follow one another at once: between two of them, and between the first look
    at the machine and the first of them, there is no time for one that is not here."""
    for raw in bundle.runs:
        _of_run(bundle, raw, tally)


def _of_run(bundle: BundleView, raw: RawRun, tally: Tally) -> None:
    made = _attempts(bundle, raw)
    if not made:
        return
    shortest_s = min((end - start) / 1e9 for start, end, _, _ in made)
    virtual = raw.scenario.get("ring") == "sim"
    most_s = IDLE_VIRTUAL_S if virtual else max(IDLE_S, shortest_s / 2)
    sessions = raw.sessions or [{"started_ns": raw.run["started_ns"]}]
    begun = sorted(whole_of(session, "started_ns") for session in sessions)
    there = _services(made[0][3])
    for (_, ended, first, before), (starts, _, second, cell) in pairwise(made):
        if any(ended <= moment <= starts for moment in begun):
            there = _services(cell)
            continue  # the controller was away
        tally.see((starts - ended) / 1e9)
        new, there = not _services(cell) <= there, there | _services(cell)
        if _excused(before, cell) or (new and starts - ended <= START_S * 1e9):
            continue
        text = f"{(starts - ended) / 1e9:.1f} s between {first} and {second} (events.ndjson of both)"
        tally.require(
            starts - ended <= most_s * 1e9,
            f"{text}; between two attempts there are at most {most_s:.1f} s, and the shortest took "
            f"{shortest_s:.1f} s",
        )
    _end(raw, made[-1], most_s if virtual else END_S + END_CELL_S * len(made), tally)
    if VEHICLE in str(raw.providers.get("traffic")) and not virtual:
        return
    for session in sessions:
        start_ns = whole_of(session, "started_ns")
        later = [row for row in made if row[0] >= start_ns]
        if not later or any(start_ns < moment <= later[0][0] for moment in begun):
            continue
        waited_s = number_of(part_of(session, "settle", {}), "waited_s", 0.0)
        slow = bool(raw.providers.get("detectors") or untimed_reasons(raw.hosts))
        begin_s = BEGIN_SLOW_S if slow else BEGIN_S
        most = waited_s + (IDLE_VIRTUAL_S if virtual else begin_s)
        gap_s = (later[0][0] - start_ns) / 1e9
        tally.require(
            gap_s <= most,
            f"{gap_s:.1f} s from the start of the session (run.json) to {later[0][2]} (events.ndjson), "
            f"{waited_s:.1f} s of them waiting for quiet",
        )


def _end(raw: RawRun, last: tuple[int, int, str, CellView], most_s: float, tally: Tally) -> None:
    """The run ended with its last cell, but for what is done with all of them; not where it was resumed
    since."""
    if any(whole_of(session, "started_ns") > last[1] for session in raw.sessions):
        return
    took_s = (whole_of(raw.run, "ended_ns") - last[1]) / 1e9
    text = f"{took_s:.1f} s from the end of {last[2]} (events.ndjson) to the end of the run (run.json)"
    tally.require(took_s <= most_s, f"{text}, at most {most_s:.1f} s are due")


def _attempts(bundle: BundleView, raw: RawRun) -> list[tuple[int, int, str, CellView]]:
    """(start, end, name, cell) of everything that was carried out in this run, in its order."""
    found = []
    for cell in bundle.cells:
        if cell.run is not raw or cell.verdict in ("unsupported", "not-run"):
            continue
        for folder in attempts_in(cell.folder):
            if (wall := _wall(folder)) is not None:
                found.append((*wall, f"{cell.label} {folder.name}", cell))
        wall = cell.record["wall"]
        if wall["start_ns"] is not None:
            found.append((int(wall["start_ns"]), int(wall["end_ns"]), cell.label, cell))
    return sorted(found, key=lambda row: row[:2])


def _wall(folder: Path) -> tuple[int, int] | None:
    path = folder / "events.ndjson"
    rows: list[Json] = read_ndjson(path) if path.is_file() else []
    times = [whole_of(row, "t_ns") for row in rows if row.get("host") == "controller"]
    return (min(times), max(times)) if times else None


def _services(cell: CellView) -> set[str]:
    """What runs beside both ends for this cell."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    needed = {"link": routed(condition), "attacker": attacked(condition)}
    return {name for name, is_needed in needed.items() if is_needed}


def _excused(before: CellView, cell: CellView) -> bool:
    """A detector may have been started in between, and after a lost end the run waits until it is back."""
    named = [detector_of(each.run.condition(str(each.plan["condition"]))) for each in (before, cell)]
    return named != ["none", "none"] or before.verdict != "pass" or before.folder == cell.folder
