"""The fleet measure on files of known content, and on files that are damaged or absent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from measures.fleet.fleet_files import BEGIN_NS, DRONES, MS, write_fleet

from pqevidence.measures.fleet import checks, tables
from pqevidence.record.fleet import crowded, drawn, read_fleet, use_in
from pqevidence.record.raw import RawDataError, RawRun

SEED = 77


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    write_fleet(tmp_path, SEED, 10**18)
    return tmp_path


def test_draws_as_the_farm_does() -> None:
    # splitmix64 of seed 0, its published first outputs
    first = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    assert drawn(0, 3, 1000) == [value % 1000 for value in first]


def test_stage_rows_are_what_the_files_hold(cell: Path) -> None:
    fleet = read_fleet(cell)
    assert fleet is not None and fleet.drones == DRONES
    restart = tables._stage(fleet, "restart")
    # the last drone dials 3 µs after the station answers, five steps of 10 µs to its first packet
    assert restart["t100_ms"] == pytest.approx(0.053)
    assert restart["gone_ms"] == pytest.approx(1.553)
    counts = ("handshakes_per_drone", "refused_count", "lost_count")
    assert [restart[name] for name in counts] == [1.0, 0, 0]
    assert restart["rtt_p50_ms"] == pytest.approx(0.2035) and restart["rtt_p95_ms"] is None
    quiet = tables._stage(fleet, "quiet")
    assert "t100_ms" not in quiet and quiet["station_cpu_pct"] == pytest.approx(20.0)
    assert tables._load(fleet, 0)["arrived_pct"] == 100.0


def test_who_was_asked_to_come_back_came_once(cell: Path) -> None:
    path = cell / "fleet.station.ndjson"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        told = line["told"]
        told |= {"hs_begun": told["hs_started"], "hs_deferred": 5}
        told["hs_started"] += 5
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    fleet = read_fleet(cell)
    assert fleet is not None
    restart = tables._stage(fleet, "restart")
    assert [restart[name] for name in ("handshakes_per_drone", "refused_count")] == [1.0, 0]
    assert not list(checks._handshakes(fleet, "restart", ("restart",)))


def test_who_never_came_back_leaves_no_time(cell: Path) -> None:
    path = cell / "fleet.back.csv"
    lines = path.read_text().splitlines()
    last = f"restart,{DRONES - 1},"
    path.write_text("".join(f"{last if line.startswith(last) else line}\n" for line in lines))
    fleet = read_fleet(cell)
    assert fleet is not None
    row = tables._stage(fleet, "restart")
    assert (row["back_count"], row["t100_ms"], row["t95_ms"]) == (DRONES - 1, None, None)
    assert row["t50_ms"] is not None


def test_a_restarted_station_begins_its_account_anew(cell: Path) -> None:
    fleet = read_fleet(cell)
    assert fleet is not None
    used = use_in(fleet, "restart")
    # from 9 to 12 ms; the new process runs since 10 ms with 0.2 ms a millisecond
    assert used is not None and used.station_cpu_ns == 400_000 and used.farm_cpu_ns == 900_000


def test_others_that_work_in_a_still_window_are_told(cell: Path) -> None:
    assert crowded(cell) == []
    path = cell / "fleet.samples.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines[1:]:
        line[-1] = str(100 + (int(line[0]) - BEGIN_NS) // MS)
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    found = crowded(cell)
    assert len(found) == 2 and "stage quiet other programs used" in found[0]


def test_damage_and_absence_are_named(cell: Path) -> None:
    (cell / "fleet.probes.csv").write_text("stage,drone\n")
    with pytest.raises(RawDataError, match=r"fleet\.probes\.csv"):
        read_fleet(cell)
    (cell / "fleet.probes.csv").unlink()
    with pytest.raises(RawDataError, match=r"fleet\.probes\.csv"):
        read_fleet(cell)
    (cell / "fleet.json").unlink()
    assert read_fleet(cell) is None


@pytest.mark.parametrize(("late_ns", "told"), [(1, 0), (-1, 1)])
def test_a_handshake_that_ends_after_the_station_was_asked_is_not_yet_in_its_account(
    cell: Path, late_ns: int, told: int
) -> None:
    fleet = read_fleet(cell)
    assert fleet is not None
    last = next(a for a in fleet.attempts if a.stage == "restart" and a.outcome == "completed")
    more = replace(last, stage="outage", number=99, established_ns=fleet.asked_ns["outage"] + late_ns)
    going_on = replace(fleet, attempts=(*fleet.attempts, more))
    assert len(list(checks._handshakes(going_on, "outage", ("restart", "outage")))) == told


@pytest.mark.parametrize(("pause_ms", "told"), [(650, 0), (150, 1)])
def test_an_account_that_was_read_late_holds_what_was_done_until_then(
    cell: Path, pause_ms: int, told: int
) -> None:
    """1,200 ms of two cores in a row of 100 ms: the sampler waited for a processor before it read them."""
    fleet = read_fleet(cell)
    assert fleet is not None
    first = fleet.samples[0]
    begin_ns, used_ns = first.t_ns, first.farm_cpu_ns
    rows = [
        replace(first, t_ns=begin_ns + at * MS, farm_cpu_ns=used_ns + cpu * MS)
        for at, cpu in ((0, 0), (100, 1200), (100 + 100 + pause_ms, 1250))
    ]
    view = SimpleNamespace(run=RawRun({}, {}, {}, {}, {"controller": {"host": {"cpu_count": 2}}}))
    assert len(list(checks._accounts(view, replace(fleet, samples=tuple(rows))))) == told  # type: ignore[arg-type]
