"""What one ground station does for a fleet: stage by stage, and its capacity by suite.

Times are from the first possible arrival, from the moment at which the restarted station answers on its
status socket, from the order to connect its link again. A drone is back with the first authentic packet. Farm
and station share the machine: a stage's figures are of both, and their processors stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pqbase.documents import number_or_none, numbers_of, part_of
from pqbase.stats import tail
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import BundleData, Cell
from pqevidence.analysis.stats import median
from pqevidence.analysis.table import Row, Table
from pqevidence.record.fleet import (
    COMPLETED,
    DIALLING,
    JOIN,
    OUTAGE,
    PROBED,
    QUIET,
    REKEYING,
    RESTART,
    RawFleet,
    account_of,
    fleet_of,
    read_fleet,
    use_in,
)

STAGES, CAPACITY = "fleet_stages", "fleet_capacity"
#: share of a load that must arrive for it to be carried
CARRIED = 0.99
STAGE_COLUMNS = (
    *CELL,
    Column("drones_count", "drones of the farm; of a load those that sent", "drones", numeric=True),
    Column("stage", "join, quiet, rekeying, restart, outage, or a load", "stage"),
    Column("back_count", "drones that were back; in rekeying those that rekeyed", "back", numeric=True),
    Column("t50_ms", "until half of all drones were back", "50 %", "ms", numeric=True),
    Column("t95_ms", "until 95 % of them were", "95 %", "ms", numeric=True),
    Column("t100_ms", "until all of them were", "all", "ms", numeric=True),
    Column(
        "gone_ms",
        "from the kill of the station, or the cut of its link, until all were",
        "since gone",
        "ms",
        True,
    ),
    Column("dials_per_drone", "dials that began, in vain ones among them", "dials a drone", numeric=True),
    Column("handshakes_per_drone", "handshakes the station worked for", "handshakes a drone", numeric=True),
    Column("refused_count", "handshakes that the station refused or lost", "refused", numeric=True),
    Column("n_probes", "datagrams up and back", "probes", "n", numeric=True),
    Column("lost_count", "of them, not back; of a load, not arrived", "lost", numeric=True),
    Column("rtt_p50_ms", "round trip through the station, median", "round trip P50", "ms", numeric=True),
    Column("rtt_p95_ms", "the same, 95th percentile, from 20 on", "P95", "ms", numeric=True),
    Column("rtt_p99_ms", "the same, 99th percentile, from 100 on", "P99", "ms", numeric=True),
    Column("offered_pps", "datagrams a second that the load asks for", "offered", "1/s", numeric=True),
    Column("arrived_pct", "of them, arrived", "arrived", "%", numeric=True),
    Column("station_cpu_pct", "processor time of the station", "station", "% of a core", numeric=True),
    Column("farm_cpu_pct", "processor time of the farm", "farm", "% of a core", numeric=True),
    Column(
        "rest_cpu_pct",
        "processor time of everything else on the machine",
        "rest",
        "% of a core",
        numeric=True,
    ),
    Column("station_rss_mib", "resident memory of the station at the end", "memory", "MiB", numeric=True),
)
CAPACITY_COLUMNS = (
    *CELL,
    Column("drones_count", "drones of the farm", "drones", numeric=True),
    Column(
        "restart_ms", "from the restarted station's first answer until all were back", "restart", "ms", True
    ),
    Column("outage_ms", "from the link's return until all were back", "outage", "ms", True),
    Column("handshakes_per_drone", "most of restart and outage", "handshakes a drone", numeric=True),
    Column("lost_count", "datagrams lost after restart and outage", "lost", numeric=True),
    Column(
        "session_kib",
        "growth of the station's memory from its start to all joined, a drone",
        "a session",
        "KiB",
        True,
    ),
    Column(
        "station_ms",
        "the station's processor time a handshake, over the join",
        "station a handshake",
        "ms",
        True,
    ),
    Column("farm_ms", "the farm's, likewise", "farm", "ms", numeric=True),
    Column(
        "handshakes_per_core_s",
        "handshakes a second that one core of the station makes",
        "capacity",
        "1/s a core",
        True,
    ),
    Column("quiet_p99_ms", "round trip without rekeys, 99th percentile", "P99 quiet", "ms", numeric=True),
    Column("rekeying_p99_ms", "the same while the whole fleet rekeys", "P99 rekeying", "ms", numeric=True),
    Column("rekeys_per_s", "rekeys a second that were completed then", "rekeys", "1/s", numeric=True),
    Column("carried_drones", "most drones whose load arrived to 99 %", "drones carried", numeric=True),
    Column(
        "ended_drones", "fewest drones whose load did not; empty: all were carried", "ends at", numeric=True
    ),
    Column("wake_p50_us", "from waking a thread until it runs, median", "wake-up P50", "µs", numeric=True),
    Column("wake_p99_us", "the same, 99th percentile", "P99", "µs", numeric=True),
)


def make_tables(bundle: BundleData, made: Mapping[str, Table]) -> Iterator[Table]:
    """Both, where a condition asks for a fleet."""
    del made
    if not any(fleet_of(condition) for condition in bundle.conditions):
        return
    stages, capacity = Table(STAGES, names(STAGE_COLUMNS)), Table(CAPACITY, names(CAPACITY_COLUMNS))
    for cell in bundle.cells:
        if cell.verdict != "pass" or (fleet := read_fleet(cell.directory)) is None:
            continue
        rows = {stage: _stage(fleet, stage) for stage in PROBED}
        loads = [_load(fleet, number) for number in range(len(fleet.loads))]
        for row in (*rows.values(), *loads):
            stages.add(**cell_columns(cell), **row)
        capacity.add(**_capacity(cell, fleet, rows))
    yield stages
    yield capacity


def _stage(fleet: RawFleet, stage: str) -> Row:
    rtt_ms = [
        (probe.returned_ns - probe.sent_ns) / 1e6
        for probe in fleet.probes
        if probe.stage == stage and probe.sent_ns is not None and probe.returned_ns is not None
    ]
    n_probes = sum(probe.stage == stage for probe in fleet.probes)
    row: Row = {
        "drones_count": fleet.drones,
        "stage": stage,
        "n_probes": n_probes,
        "lost_count": n_probes - len(rtt_ms),
        "rtt_p50_ms": median(rtt_ms),
        "rtt_p95_ms": tail(rtt_ms, 0.95),
        "rtt_p99_ms": tail(rtt_ms, 0.99),
        **_processors(fleet, stage),
    }
    if stage not in DIALLING:
        return row
    mine = [attempt for attempt in fleet.attempts if attempt.stage == stage]
    back_ns = sorted(moment for moment in _back(fleet, stage).values() if moment is not None)
    begun_ns = fleet.begun_ns(stage)
    t50, t95, t100 = ((_at(back_ns, fleet.drones, share, begun_ns)) for share in (50, 95, 100))
    gone_ns = number_or_none(part_of(part_of(fleet.document, "stages"), stage), "gone_ns")
    return row | {
        "back_count": len(back_ns),
        "t50_ms": t50,
        "t95_ms": t95,
        "t100_ms": t100,
        "gone_ms": None if gone_ns is None or t100 is None else t100 + (begun_ns - gone_ns) / 1e6,
        "dials_per_drone": len(mine) / fleet.drones,
        "handshakes_per_drone": _grown(fleet, stage, "begun") / fleet.drones,
        "refused_count": _grown(fleet, stage, "came") - _grown(fleet, stage, "completed"),
    }


def _back(fleet: RawFleet, stage: str) -> dict[int, int | None]:
    """Drone → when it was back; in a window of rekeys when the first packet of its new keys came."""
    if stage != REKEYING:
        return fleet.back[stage]
    found: dict[int, int | None] = dict.fromkeys(range(fleet.drones))
    for attempt in fleet.attempts:
        if attempt.stage == stage and attempt.outcome == COMPLETED and attempt.kind == "rekey":
            found[attempt.drone] = attempt.first_packet_ns
    return found


def _at(back_ns: Sequence[int], drones: int, share_pct: int, begun_ns: int) -> float | None:
    """When so many of all drones were back, ms; None where so many never were."""
    place = max(1, -(-drones * share_pct // 100))
    return (back_ns[place - 1] - begun_ns) / 1e6 if place <= len(back_ns) else None


def _grown(fleet: RawFleet, stage: str, counter: str) -> int:
    """What the station's own counter gained in the stage: a restarted one begins at 0."""
    before = {JOIN: None, REKEYING: JOIN, RESTART: None, OUTAGE: RESTART}[stage]
    told = account_of(fleet.status[stage])[counter]
    return told if before is None else told - account_of(fleet.status[before])[counter]


def _processors(fleet: RawFleet, stage: str) -> Row:
    used = use_in(fleet, stage)
    if used is None:
        return {}
    return {
        "station_cpu_pct": used.station_pct,
        "farm_cpu_pct": used.farm_pct,
        "rest_cpu_pct": used.rest_pct,
        "station_rss_mib": None if used.station_rss_kib is None else used.station_rss_kib / 1024,
    }


def _load(fleet: RawFleet, number: int) -> Row:
    load = fleet.loads[number]
    return {
        "drones_count": load.drones,
        "stage": load.stage,
        "lost_count": load.offered - load.arrived,
        "offered_pps": load.drones * load.rate_hz,
        "arrived_pct": 100 * load.arrived / load.offered if load.offered else None,
        **_processors(fleet, load.stage),
    }


def _capacity(cell: Cell, fleet: RawFleet, rows: Mapping[str, Row]) -> Row:
    used = use_in(fleet, JOIN)
    joined = _grown(fleet, JOIN, "completed")
    station_ms = farm_ms = None
    if used is not None and used.station_cpu_ns is not None and joined:
        station_ms, farm_ms = used.station_cpu_ns / joined / 1e6, used.farm_cpu_ns / joined / 1e6
    carried = [load.drones for load in fleet.loads if load.arrived >= CARRIED * load.offered]
    ended = [load.drones for load in fleet.loads if load.arrived < CARRIED * load.offered]
    wake_us = [waited_ns / 1e3 for waited_ns in numbers_of(fleet.document, "wake_ns")]
    again = [
        float(told)
        for stage in (RESTART, OUTAGE)
        if (told := rows[stage]["handshakes_per_drone"]) is not None
    ]
    return {
        **cell_columns(cell),
        "drones_count": fleet.drones,
        "restart_ms": rows[RESTART]["t100_ms"],
        "outage_ms": rows[OUTAGE]["t100_ms"],
        "handshakes_per_drone": max(again, default=None),
        "lost_count": sum(int(rows[stage]["lost_count"] or 0) for stage in (RESTART, OUTAGE)),
        "session_kib": _session_kib(fleet),
        "station_ms": station_ms,
        "farm_ms": farm_ms,
        "handshakes_per_core_s": 1e3 / station_ms if station_ms else None,
        "quiet_p99_ms": rows[QUIET]["rtt_p99_ms"],
        "rekeying_p99_ms": rows[REKEYING]["rtt_p99_ms"],
        "rekeys_per_s": _rekeys_per_s(fleet),
        "carried_drones": max(carried, default=None),
        "ended_drones": min(ended, default=None),
        "wake_p50_us": median(wake_us),
        "wake_p99_us": tail(wake_us, 0.99),
    }


def _rekeys_per_s(fleet: RawFleet) -> float | None:
    """Completed ones, from the first possible moment to the last one's first packet."""
    done_ns = [moment for moment in _back(fleet, REKEYING).values() if moment is not None]
    if not done_ns:
        return None
    return len(done_ns) * 1e9 / (max(done_ns) - fleet.begun_ns(REKEYING))


def _session_kib(fleet: RawFleet) -> float | None:
    """Of resident memory, between the station's first answer and the end of the join."""
    begin_ns, end_ns = fleet.span_ns(JOIN)
    before = next(
        (s.station_rss_kib for s in fleet.samples if s.t_ns >= begin_ns and s.station_rss_kib), None
    )
    after = next((s.station_rss_kib for s in fleet.samples if s.t_ns >= end_ns and s.station_rss_kib), None)
    return None if before is None or after is None else (after - before) / fleet.drones
