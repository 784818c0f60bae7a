"""Fleets whose files contradict the plan, the clock, or the station."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bad_bundles.forge import Json, Registry, cells, edit, finish, load, registering, rename_cells
from measures.fleet.fleet_files import LENGTH_NS, SETTINGS, with_fleet

from pqevidence.record.sheet import catalogue_of

BAD: Registry = {}


def _fleet(root: Path, spoil: Callable[[Path], None]) -> None:
    """Every cell of the bundle is of a condition with a fleet; `spoil` does its work in each cell."""
    edit(root / "data" / "scenario.effective.yml", lambda s: s["conditions"][0].update(fleet=SETTINGS))
    rename_cells(root)
    seeds = {row["cell_id"]: int(row["seed"]) for row in load(root / "data" / "plan.json")["cells"]}
    for cell in cells(root):
        with_fleet(cell, seeds[cell.name])
        edit(cell / "record.json", _with_window)
        spoil(cell)
    finish(root)


def _with_window(record: Json) -> None:
    """The record as it counts the window of the fleet."""
    stop_ns = int(record["wall"]["end_ns"]) - 20_000_000
    begin_ns = stop_ns - 25_000_000
    record["windows"].append({"name": "fleet", "start_ns": begin_ns, "end_ns": begin_ns + LENGTH_NS})
    record["wall"]["overhead_s"] = round(record["wall"]["overhead_s"] - LENGTH_NS / 1e9, 9)
    fields = record["categories"]["C"]
    for name, sign in (("suite_active_duration_ms", 1), ("overhead_ms", -1)):
        fields[name]["value"] = round(fields[name]["value"] + sign * LENGTH_NS / 1e6, 6)


def _edited(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def spoil(cell: Path) -> None:
        path = cell / name
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before

    return spoil


def _document(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def told(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document, indent=1)

    return _edited("fleet.json", told)


def _cells_of(text: str, row: int, column: int, value: str) -> str:
    lines = [line.split(",") for line in text.splitlines()]
    lines[row][column] = value
    return "".join(",".join(line) + "\n" for line in lines)


@registering(BAD, "fleet_flown")
def fewer_drones_than_planned(root: Path) -> None:
    """The condition asks for four drones, three are told of."""
    _fleet(root, _edited("fleet.back.csv", lambda text: "\n".join(text.splitlines()[:-1]) + "\n"))


@registering(BAD, "fleet_flown")
def another_fleet_than_planned(root: Path) -> None:
    """The fleet flew with an outage of another length than the condition's."""
    _fleet(root, _document(lambda document: document["settings"].update(outage_s=2.0)))


@registering(BAD, "fleet_flown")
def arrivals_of_another_seed(root: Path) -> None:
    """A drone that dialled when it suited, not when the seed says."""

    def moved(text: str) -> str:
        due_ns = int(text.splitlines()[1].split(",")[4])
        return _cells_of(text, 1, 4, str(due_ns - 1000))

    _fleet(root, _edited("fleet.attempts.csv", moved))


@registering(BAD, "fleet_flown")
def back_before_its_handshake(root: Path) -> None:
    """A drone is said to be back earlier than its first packet came."""

    def sooner(text: str) -> str:
        row = next(n for n, line in enumerate(text.splitlines()) if line.startswith("restart,0"))
        back_ns = int(text.splitlines()[row].split(",")[2])
        return _cells_of(text, row, 2, str(back_ns - 20_000))

    _fleet(root, _edited("fleet.back.csv", sooner))


@registering(BAD, "fleet_flown")
def failed_dial_left_out(root: Path) -> None:
    """A drone's fourth attempt, which failed, is gone; the fifth is there."""

    def numbered(text: str) -> str:
        row = next(n for n, line in enumerate(text.splitlines()) if line.startswith("outage,2,4"))
        return _cells_of(text, row, 2, "5")

    _fleet(root, _edited("fleet.attempts.csv", numbered))


@registering(BAD, "fleet_timed")
def fleet_of_another_day(root: Path) -> None:
    """The fleet's files are of a time outside the cell."""

    def later(document: Json) -> None:
        for edge in ("begin", "end"):
            document["clocks"][edge]["realtime_ns"] += 3600 * 10**9

    _fleet(root, _document(later))


@registering(BAD, "fleet_timed")
def station_never_restarted(root: Path) -> None:
    """The station that answers after the restart is the process of before."""
    _fleet(root, _document(lambda document: document["listening"][1].update(process=11)))


@registering(BAD, "fleet_timed")
def restart_after_the_outage(root: Path) -> None:
    """The station answers again after the link was cut."""
    _fleet(root, _document(lambda document: document["listening"][1].update(t_ns=5_015_000_000)))


@registering(BAD, "fleet_timed")
def station_with_less_than_no_work(root: Path) -> None:
    """The station's processor time goes back between two samples."""

    def back(text: str) -> str:
        return _cells_of(text, 5, 4, "0")

    _fleet(root, _edited("fleet.samples.csv", back))


def _status(stage: str, change: Callable[[Json], object]) -> Callable[[Path], None]:
    def told(text: str) -> str:
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            if line["stage"] == stage:
                change(line["told"])
        return "".join(json.dumps(line) + "\n" for line in lines)

    return _edited("fleet.station.ndjson", told)


@registering(BAD, "fleet_timed")
def station_asked_before_it_began(root: Path) -> None:
    """Nobody asked the station after its restart: its account is of the moment zero."""

    def early(text: str) -> str:
        lines = [json.loads(line) for line in text.splitlines()]
        return "".join(json.dumps({**line, "t_ns": 0}) + "\n" for line in lines)

    _fleet(root, _edited("fleet.station.ndjson", early))


@registering(BAD, "fleet_witnessed")
def storm_that_the_farm_hides(root: Path) -> None:
    """The station counts twice the handshakes after its restart that the farm tells of."""

    def doubled(told: Json) -> None:
        told["hs_started"] *= 2
        told["hs_completed"] *= 2

    _fleet(root, _status("restart", doubled))


@registering(BAD, "fleet_witnessed")
def work_that_the_farm_knows_nothing_of(root: Path) -> None:
    """The station worked after its restart for twice the handshakes that the farm tells of."""
    _fleet(root, _status("restart", lambda told: told.update(hs_begun=2 * told["hs_started"])))


@registering(BAD, "fleet_witnessed")
def drone_that_the_station_never_saw(root: Path) -> None:
    """One drone's handshakes are not among the station's."""
    _fleet(root, _status("outage", lambda told: told["drone"][1].update(hs_completed=0)))


@registering(BAD, "fleet_witnessed")
def lost_probes_made_good(root: Path) -> None:
    """The farm says that every probe came back, the station opened fewer."""
    _fleet(root, _status("rekeying", lambda told: told["drone"][3].update(rx_ok=4)))


@registering(BAD, "fleet_witnessed")
def load_that_never_arrived(root: Path) -> None:
    """More datagrams of the load are said to have arrived than the station opened."""

    def fewer(told: Json) -> None:
        for drone in told["drone"]:
            drone["rx_ok"] -= 20

    _fleet(root, _status("load", fewer))


@registering(BAD, "versions_known")
def fleet_of_a_version_without_fleets(root: Path) -> None:
    """It claims to be of 0.2.0, and its records have that version's fields; no fleet flew then."""
    _fleet(root, _as_0_2)
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.2.0"))
    finish(root)


def _as_0_2(cell: Path) -> None:
    def fewer(record: Json) -> None:
        for letter, category in catalogue_of("0.2.0").items():
            fields = record["categories"][letter]
            record["categories"][letter] = {name: fields[name] for name in fields if name in category.fields}

    edit(cell / "record.json", fewer)
