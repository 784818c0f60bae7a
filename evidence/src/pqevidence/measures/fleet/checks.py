"""What a fleet's files say of one thing must agree: condition and seed, clocks, farm and station."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from pqbase.documents import Json, exact_of, number_of, part_of, rows_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.fleet import (
    COMPLETED,
    DOCUMENT,
    JOIN,
    OUTAGE,
    QUIET,
    REKEY_SEED,
    REKEYING,
    RESTART,
    STATUS_FILE,
    RawFleet,
    account_of,
    drawn,
    fleet_of,
    read_fleet,
)

WINDOW = "fleet"
#: of two clocks of one machine, over some minutes
CLOCKS_NS = 50_000_000
#: a time is read before its account, and the thread may wait in between
EDGE_NS = 50_000_000
#: what the sampler sleeps after each row
SAMPLED_NS = 100_000_000
#: what the station counts of handshakes
WORDS: Mapping[str, str] = {"came": "came", "begun": "it began", "completed": "completed"}
#: status by name → stages whose handshakes, and whose probes, that process of the station has seen by then
SEEN: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    JOIN: ((JOIN,), ()),
    REKEYING: ((JOIN, QUIET, REKEYING), (JOIN, QUIET, REKEYING)),
    RESTART: ((RESTART,), (RESTART,)),
    OUTAGE: ((RESTART, OUTAGE), (RESTART, OUTAGE)),
}


def _of(cell: CellView, tally: Tally) -> RawFleet | None:
    """The cell's fleet, where it has one and did not lose it on the way."""
    if fleet_of(cell.run.condition(str(cell.plan["condition"]))) is None:
        return None
    fleet = read_fleet(cell.folder)
    if fleet is not None:
        tally.see()
    return fleet


def flown(cell: CellView, tally: Tally) -> None:
    """Settings and seed are the plan's; every drone dialled at the moment that the seed gives, is told of in
    every stage, and was back with the first packet of its handshake."""
    asked = fleet_of(cell.run.condition(str(cell.plan["condition"])))
    if asked is None:
        stray = (cell.folder / DOCUMENT).is_file()
        tally.require(not stray, f"{cell.label}: {DOCUMENT} in a cell whose condition names no fleet")
        return
    fleet = _of(cell, tally)
    if fleet is None:
        passed = cell.verdict == "pass"
        tally.require(not passed, f"{cell.label}: there is no {DOCUMENT}, and the cell passes")
        return
    for what, told, due in (
        ("settings", fleet.document["settings"], asked),
        ("seed", fleet.document["seed"], int(cell.plan["seed"])),
    ):
        tally.require(told == due, f"{cell.label}: {DOCUMENT} has {what} {told}, the plan {due}")
    for problem in [*_moments(fleet), *_drones(fleet)]:
        tally.fail(f"{cell.label}: {problem}")


def _moments(fleet: RawFleet) -> Iterable[str]:
    seed = whole_of(fleet.document, "seed")
    asked = part_of(fleet.document, "settings")
    for stage, kind, own, within_s in (
        (JOIN, "session", seed, number_of(asked, "arrive_s")),
        (REKEYING, "rekey", seed ^ REKEY_SEED, number_of(asked, "window_s")),
    ):
        at = part_of(part_of(fleet.document, "arrivals"), stage)
        if at["spread_us"] != round(1e6 * within_s):
            yield f"moments in {stage} were drawn within {at['spread_us']} µs, {within_s:g} s are due"
            return
        begin_ns = exact_of(at, "begin_ns")
        due = [begin_ns + 1000 * us for us in drawn(own, fleet.drones, exact_of(at, "spread_us"))]
        for attempt in fleet.attempts:
            if attempt.due_ns is None or attempt.kind != kind:
                continue
            if not 0 <= attempt.drone < fleet.drones or attempt.due_ns != due[attempt.drone]:
                yield f"drone {attempt.drone} was due at {attempt.due_ns} in {stage}, the seed says otherwise"
                return


def _drones(fleet: RawFleet) -> Iterable[str]:
    everybody = set(range(fleet.drones))
    first: dict[tuple[str, int], int] = {}
    numbers: dict[int, list[int]] = defaultdict(list)
    for attempt in fleet.attempts:
        numbers[attempt.drone].append(attempt.number)
        for before, after in pairwise(attempt.moments):
            if after < before:
                yield f"drone {attempt.drone}, attempt {attempt.number}: its moments go back in time"
                return
        completed = attempt.outcome == COMPLETED
        if completed == (attempt.first_packet_ns is None):
            yield f"drone {attempt.drone}, attempt {attempt.number}: {attempt.outcome}, not so its packet"
            return
        if attempt.first_packet_ns is not None:
            key = attempt.stage, attempt.drone
            first[key] = min(attempt.first_packet_ns, first.get(key, attempt.first_packet_ns))
    for drone, told in numbers.items():
        if sorted(told) != list(range(1, len(told) + 1)):
            yield f"drone {drone}: attempts {sorted(told)[:5]}… are not all of them"
            return
    for stage, back in fleet.back.items():
        if set(back) != everybody:
            yield f"stage {stage} tells of {len(back)} drones, there are {fleet.drones}"
            return
        for drone, back_ns in back.items():
            due_ns = first.get((stage, drone))
            # a session that outlived the outage brings a drone back without a handshake
            if back_ns is not None and stage != OUTAGE and back_ns != due_ns:
                yield f"drone {drone} was back at {back_ns} in {stage}, its first packet came at {due_ns}"
                return
            if back_ns is not None and back_ns < whole_of(_stage(fleet, stage), "begin_ns"):
                yield f"drone {drone} was back before {stage} began"
                return


def _stage(fleet: RawFleet, stage: str) -> Json:
    return part_of(part_of(fleet.document, "stages"), stage)


def timed(cell: CellView, tally: Tally) -> None:
    """Everything happened within the cell's own window, in its order, on two clocks that keep their distance;
    no processor was used longer than there was time."""
    fleet = _of(cell, tally)
    if fleet is None:
        return
    clocks = part_of(fleet.document, "clocks")
    begin, end = part_of(clocks, "begin"), part_of(clocks, "end")
    apart = [exact_of(at, "realtime_ns") - exact_of(at, "monotonic_ns") for at in (begin, end)]
    steady = abs(apart[1] - apart[0]) <= CLOCKS_NS
    tally.require(
        steady, f"{cell.label}: the fleet's two clocks drifted by {(apart[1] - apart[0]) / 1e6:.0f} ms"
    )
    window = {
        str(event["event"]): int(event["t_ns"]) for event in cell.raw.events if event.get("window") == WINDOW
    }
    inside = (
        window.get("window_start", 0)
        <= exact_of(begin, "realtime_ns")
        <= exact_of(end, "realtime_ns")
        <= window.get("window_end", 0)
    )
    tally.require(inside, f"{cell.label}: {DOCUMENT} tells of a time outside the cell's window {WINDOW}")
    for problem in [*_order(fleet), *_accounts(cell, fleet)]:
        tally.fail(f"{cell.label}: {problem}")


def _order(fleet: RawFleet) -> Iterable[str]:
    def asked(stage: str) -> list[int]:
        """When the station was asked after it; `witnessed` says where it was not."""
        return [fleet.asked_ns[stage]] if stage in fleet.asked_ns else []

    document = fleet.document
    clocks, arrivals = part_of(document, "clocks"), part_of(document, "arrivals")
    begin_ns, end_ns = (exact_of(part_of(clocks, edge), "monotonic_ns") for edge in ("begin", "end"))
    order = [begin_ns]
    for stage in (JOIN, QUIET, REKEYING):
        own = _stage(fleet, stage)
        order += [
            exact_of(own, "begin_ns"),
            exact_of(part_of(arrivals, stage), "begin_ns"),
            exact_of(own, "waited_ns"),
            *asked(stage),
        ]
    listening, own = rows_of(document, "listening"), _stage(fleet, RESTART)
    order += [
        exact_of(own, "gone_ns"),
        exact_of(own, "begin_ns"),
        exact_of(listening[-1], "t_ns"),
        exact_of(own, "waited_ns"),
        *asked(RESTART),
    ]
    own = _stage(fleet, OUTAGE)
    order += [exact_of(own, key) for key in ("gone_ns", "begin_ns", "healed_ns", "healed_by_ns", "waited_ns")]
    order += asked(OUTAGE)
    order += [moment for load in fleet.loads for moment in (load.begin_ns, load.end_ns)]
    if any(after < before for before, after in pairwise([*order, end_ns])):
        yield f"the stages in {DOCUMENT}, and when the station was asked after each, are not in their order"
    processes = [row["process"] for row in listening]
    if len(processes) != 2 or processes[0] == processes[1]:
        yield f"the station was to be started twice, its processes were {processes}"


def _accounts(cell: CellView, fleet: RawFleet) -> Iterable[str]:
    cores = whole_of(cell.run.host("controller"), "cpu_count", 1024)
    for before, after, following in zip(
        fleet.samples, fleet.samples[1:], [*fleet.samples[2:], None], strict=False
    ):
        wall_ns = after.t_ns - before.t_ns
        if following is not None:  # had the row come late by then, its account was read as late
            wall_ns += max(0, following.t_ns - after.t_ns - SAMPLED_NS)
        used = [("farm", after.farm_cpu_ns - before.farm_cpu_ns)]
        if before.station_process == after.station_process and None not in (
            before.station_cpu_ns,
            after.station_cpu_ns,
        ):
            used.append(("station", int(after.station_cpu_ns or 0) - int(before.station_cpu_ns or 0)))
        for who, cpu_ns in used:
            if wall_ns < 0 or not 0 <= cpu_ns <= wall_ns * cores + EDGE_NS * cores:
                yield f"the {who} used {cpu_ns / 1e6:.0f} ms in {wall_ns / 1e6:.0f} ms on {cores} cores"
                return


def witnessed(cell: CellView, tally: Tally) -> None:
    """What the station counted of itself, as it was asked after each stage, is what the farm says it did
    there: handshakes in all and drone by drone, datagrams up and back, and the load that arrived."""
    fleet = _of(cell, tally)
    if fleet is None:
        return
    absent = [name for name in (*SEEN, "load") if name not in fleet.status]
    if absent:
        tally.fail(f"{cell.label}: {STATUS_FILE} does not tell of {', '.join(absent)}")
        return
    for name, (handshakes, probes) in SEEN.items():
        for problem in [*_handshakes(fleet, name, handshakes), *_probes(fleet, name, probes)]:
            tally.fail(f"{cell.label}: {problem}")
            return
    for problem in _loads(fleet):
        tally.fail(f"{cell.label}: {problem}")


def _count(told: Json, name: str) -> int:
    """A count of the station's; what it never counted it does not tell."""
    return whole_of(told, name) if name in told else 0


def _told(status: Json) -> dict[int, Json]:
    return {int(str(drone["name"]).removeprefix("d")): drone for drone in rows_of(status, "drone", [])}


def _handshakes(fleet: RawFleet, name: str, stages: tuple[str, ...]) -> Iterable[str]:
    status = fleet.status[name]
    mine = [attempt for attempt in fleet.attempts if attempt.stage in stages]
    # after an outage old sessions bring drones back, and handshakes that began go on after the stage
    asked_ns = fleet.asked_ns[name]
    by_then = {id(a) for a in mine if a.outcome == COMPLETED and (a.established_ns or 0) <= asked_ns}
    completed = Counter(attempt.drone for attempt in mine if id(attempt) in by_then)
    # what the drone gave up, or had not heard of by then, may have been completed at the station
    open_ended = Counter(attempt.drone for attempt in mine if id(attempt) not in by_then)
    done, most = sum(completed.values()), len(mine)
    for what, count in account_of(status).items():
        if not done <= count <= most:
            yield (
                f"until {name} the station counts {count} handshakes that {WORDS[what]}, the farm {done} "
                f"completed of {most} dialled"
            )
            return
    drones = _told(status)
    if set(drones) != set(range(fleet.drones)):
        yield f"until {name} the station tells of {len(drones)} drones, the farm has {fleet.drones}"
        return
    for drone, told in drones.items():
        count = _count(told, "hs_completed")
        if not completed[drone] <= count <= completed[drone] + open_ended[drone]:
            yield (
                f"until {name} the station counts {count} handshakes of drone {drone}, the farm "
                f"{completed[drone]}"
            )
            return


def _probes(fleet: RawFleet, name: str, stages: tuple[str, ...]) -> Iterable[str]:
    mine = [probe for probe in fleet.probes if probe.stage in stages and probe.sent_ns is not None]
    sent, back = Counter(p.drone for p in mine), Counter(p.drone for p in mine if p.returned_ns is not None)
    for drone, told in _told(fleet.status[name]).items():
        for counter in ("rx_ok", "tx_data"):
            if not back[drone] <= _count(told, counter) <= sent[drone]:
                yield (
                    f"until {name} the station counts {counter} {told.get(counter, 0)} of drone {drone}, the "
                    f"farm {sent[drone]} probes sent and {back[drone]} returned"
                )
                return


def _loads(fleet: RawFleet) -> Iterable[str]:
    opened = sum(_count(told, "rx_ok") for told in _told(fleet.status["load"]).values())
    opened -= sum(_count(told, "rx_ok") for told in _told(fleet.status[OUTAGE]).values())
    sent, arrived = sum(load.sent for load in fleet.loads), sum(load.arrived for load in fleet.loads)
    if not arrived <= opened <= sent:
        yield f"the station opened {opened} datagrams of loads, the farm sent {sent}, {arrived} arrived"
    for load in fleet.loads:
        if not load.arrived <= load.sent <= load.offered:
            yield f"{load.stage}: {load.offered} offered, {load.sent} sent, {load.arrived} arrived"
