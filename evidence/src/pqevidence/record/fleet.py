"""The raw files of a fleet: what the farm, the station and the controller each say of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqbase.documents import Json, part_of, rows_of, whole_of
from pqevidence.record.raw import RawDataError, read_ndjson, read_object

SCHEMA_VERSION: Final = "pqlab/fleet/v1"
DOCUMENT: Final = "fleet.json"
STATUS_FILE: Final = "fleet.station.ndjson"
#: kind of the farm's rows → file and columns
FILES: Final = {
    "attempt": (
        "fleet.attempts.csv",
        "stage,drone,attempt,kind,due_ns,dialled_ns,connected_ns,hello_ns,established_ns,first_packet_ns,outcome",
    ),
    "back": ("fleet.back.csv", "stage,drone,back_ns"),
    "probe": ("fleet.probes.csv", "stage,drone,sent_ns,returned_ns"),
    "sample": (
        "fleet.samples.csv",
        "t_ns,farm_cpu_ns,farm_rss_kib,station_process,station_cpu_ns,station_rss_kib,machine_busy_ticks",
    ),
    "load": (
        "fleet.loads.csv",
        "stage,drones,rate_hz,size_bytes,begin_ns,end_ns,offered_count,sent_count,arrived_count",
    ),
}
#: stages in which drones dial, in their order; between them the two windows of probes
JOIN, QUIET, REKEYING, RESTART, OUTAGE = "join", "quiet", "rekeying", "restart", "outage"
DIALLING: Final = (JOIN, REKEYING, RESTART, OUTAGE)
PROBED: Final = (JOIN, QUIET, REKEYING, RESTART, OUTAGE)
COMPLETED: Final = "completed"
#: codes of what befell the fleet and not the tunnel
FLEET_LOST: Final = ("fleet-engine", "fleet-farm", "fleet-station")


def fleet_of(condition: Json) -> Json | None:
    """What the condition asks of a fleet; None where it asks for none."""
    asked = condition.get("fleet")
    return dict(asked) if isinstance(asked, dict) else None


def account_of(told: Json) -> dict[str, int]:
    """What a station's status tells of handshakes: `came` (a connection that waited too long and was asked to
    come back came once), `begun` (it was worked for; a station without a queue worked for whoever came),
    `completed`. Counts since the station's start; raises ValueError where one is no number."""
    count = {name: _count(told, f"hs_{name}", 0) for name in ("started", "deferred", "completed")}
    came = count["started"] - count["deferred"]
    return {"came": came, "begun": _count(told, "hs_begun", came), "completed": count["completed"]}


def _count(told: Json, name: str, absent: int) -> int:
    return whole_of(told, name) if name in told else absent


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dialled handshake of one drone; monotonic ns, None for what never came."""

    stage: str
    drone: int
    number: int
    kind: str
    due_ns: int | None
    dialled_ns: int
    connected_ns: int | None
    hello_ns: int | None
    established_ns: int | None
    first_packet_ns: int | None
    outcome: str

    @property
    def moments(self) -> list[int]:
        """What came, in the order in which it must have come."""
        told = (
            self.due_ns,
            self.dialled_ns,
            self.connected_ns,
            self.hello_ns,
            self.established_ns,
            self.first_packet_ns,
        )
        return [moment for moment in told if moment is not None]


@dataclass(frozen=True, slots=True)
class Probe:
    """One datagram up and back; None: never sent, never returned."""

    stage: str
    drone: int
    sent_ns: int | None
    returned_ns: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """Accounts of the kernel, so far."""

    t_ns: int
    farm_cpu_ns: int
    station_process: int | None
    station_cpu_ns: int | None
    station_rss_kib: int | None
    machine_busy_ticks: int


@dataclass(frozen=True, slots=True)
class Load:
    """So many drones at their full rate, one way."""

    stage: str
    drones: int
    rate_hz: int
    size_bytes: int
    begin_ns: int
    end_ns: int
    offered: int
    sent: int
    arrived: int


@dataclass(frozen=True)
class RawFleet:
    """All of one cell."""

    document: Json
    attempts: tuple[Attempt, ...]
    back: dict[str, dict[int, int | None]]
    probes: tuple[Probe, ...]
    samples: tuple[Sample, ...]
    loads: tuple[Load, ...]
    status: dict[str, Json]
    #: when the farm asked the station for each of them, monotonic
    asked_ns: dict[str, int]

    @property
    def drones(self) -> int:
        """How many there are."""
        return whole_of(part_of(self.document, "settings"), "drones")

    def begun_ns(self, stage: str) -> int:
        """From when on a drone's way back counts: the first possible arrival, the restarted station that
        listens, the link that the engine was told to connect."""
        if stage == RESTART:
            return whole_of(rows_of(self.document, "listening")[-1], "t_ns")
        if stage == OUTAGE:
            return whole_of(part_of(part_of(self.document, "stages"), OUTAGE), "healed_ns")
        return whole_of(part_of(part_of(self.document, "arrivals"), stage), "begin_ns")

    def span_ns(self, stage: str) -> tuple[int, int]:
        """The stage, for its account of processors."""
        for load in self.loads:
            if load.stage == stage:
                return load.begin_ns, load.end_ns
        at = part_of(part_of(self.document, "stages"), stage)
        return whole_of(at, "begin_ns"), whole_of(at, "waited_ns")


def read_fleet(folder: Path) -> RawFleet | None:
    """None where the cell has no fleet.json. Raises RawDataError for a file that is damaged or absent."""
    if not (folder / DOCUMENT).is_file():
        return None
    document = read_object(folder / DOCUMENT)
    back: dict[str, dict[int, int | None]] = {}
    for row in _rows(folder, "back"):
        back.setdefault(row["stage"], {})[int(row["drone"])] = _maybe(row["back_ns"])
    statuses = _statuses(folder)
    try:
        return RawFleet(
            document,
            tuple(
                Attempt(
                    row["stage"],
                    int(row["drone"]),
                    int(row["attempt"]),
                    row["kind"],
                    _maybe(row["due_ns"]),
                    int(row["dialled_ns"]),
                    _maybe(row["connected_ns"]),
                    _maybe(row["hello_ns"]),
                    _maybe(row["established_ns"]),
                    _maybe(row["first_packet_ns"]),
                    row["outcome"],
                )
                for row in _rows(folder, "attempt")
            ),
            back,
            tuple(
                Probe(row["stage"], int(row["drone"]), _maybe(row["sent_ns"]), _maybe(row["returned_ns"]))
                for row in _rows(folder, "probe")
            ),
            tuple(
                Sample(
                    int(row["t_ns"]),
                    int(row["farm_cpu_ns"]),
                    _maybe(row["station_process"]),
                    _maybe(row["station_cpu_ns"]),
                    _maybe(row["station_rss_kib"]),
                    int(row["machine_busy_ticks"]),
                )
                for row in _rows(folder, "sample")
            ),
            tuple(
                Load(row["stage"], *(int(row[name]) for name in _header("load")[1:]))
                for row in _rows(folder, "load")
            ),
            {str(row["stage"]): part_of(row, "told") for row in statuses},
            {str(row["stage"]): whole_of(row, "t_ns") for row in statuses},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RawDataError(folder / DOCUMENT, f"a row of the fleet's files: {error!r}") from error


def _statuses(folder: Path) -> list[Json]:
    path = folder / STATUS_FILE
    if not path.is_file():
        raise RawDataError(path, "it is not there")
    return read_ndjson(path)


def _header(kind: str) -> list[str]:
    return FILES[kind][1].split(",")


def _rows(folder: Path, kind: str) -> Iterator[dict[str, str]]:
    path = folder / FILES[kind][0]
    if not path.is_file():
        raise RawDataError(path, "it is not there")
    with path.open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        if reader.fieldnames != _header(kind):
            raise RawDataError(path, f"its columns are {reader.fieldnames}, due are {FILES[kind][1]}")
        for row in reader:
            if None in row or None in row.values():
                raise RawDataError(path, f"line {reader.line_num}: not as many values as columns")
            yield row


def _maybe(text: str) -> int | None:
    return int(text) if text else None


def drawn(seed: int, count: int, spread_us: int) -> list[int]:
    """Moments within `spread_us` as the farm draws them (splitmix64), microseconds, drone by drone."""
    mask = (1 << 64) - 1
    state, found = seed & mask, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        found.append((mixed ^ (mixed >> 31)) % max(1, spread_us))
    return found


#: what the farm draws moments of rekeys from, laid over the seed
REKEY_SEED: Final = 0x52454B4559000000

#: of one core: what everything beside farm and station may use in a window whose round trips are told
LIMIT_REST_PCT: Final = 50.0
TICK_NS: Final = 10_000_000
#: windows in which nothing but probes and handshakes is under way: the engine starts no container there
STILL: Final = (QUIET, REKEYING)


@dataclass(frozen=True)
class Use:
    """Of one stage, per cent of one core. None: there was no station all the while. rest: everything else on
    the machine, the lab's idle services among it. cpu_ns: since the stage or the station began."""

    station_pct: float | None
    farm_pct: float
    rest_pct: float
    station_cpu_ns: int | None
    farm_cpu_ns: int
    station_rss_kib: int | None


def use_in(fleet: RawFleet, stage: str) -> Use | None:
    """From the first sample in the stage to the first one after it; None without two of them."""
    begin_ns, end_ns = fleet.span_ns(stage)
    before = next((sample for sample in fleet.samples if sample.t_ns >= begin_ns), None)
    after = next((sample for sample in fleet.samples if sample.t_ns >= end_ns), None)
    if before is None or after is None or after.t_ns <= before.t_ns:
        return None
    wall_ns = after.t_ns - before.t_ns
    farm_ns = after.farm_cpu_ns - before.farm_cpu_ns
    station_ns = after.station_cpu_ns
    if station_ns is not None and before.station_process == after.station_process:
        station_ns -= before.station_cpu_ns or 0
    busy_ns = (after.machine_busy_ticks - before.machine_busy_ticks) * TICK_NS
    return Use(
        station_pct=None if station_ns is None else 100 * station_ns / wall_ns,
        farm_pct=100 * farm_ns / wall_ns,
        rest_pct=100 * max(0, busy_ns - farm_ns - (station_ns or 0)) / wall_ns,
        station_cpu_ns=station_ns,
        farm_cpu_ns=farm_ns,
        station_rss_kib=after.station_rss_kib,
    )


def crowded(folder: Path) -> list[str]:
    """Why a busy machine made the fleet's figures; [] where it did not, or there is no fleet to read."""
    try:
        fleet = read_fleet(folder)
    except RawDataError:
        return []  # said of the cell by the measure
    found = []
    for stage in STILL if fleet is not None else ():
        used = use_in(fleet, stage) if fleet is not None else None
        if used is not None and used.rest_pct > LIMIT_REST_PCT:
            found.append(
                f"in the fleet's stage {stage} other programs used {used.rest_pct:.0f} % of a core "
                f"(limit {LIMIT_REST_PCT:g} %)"
            )
    return found
