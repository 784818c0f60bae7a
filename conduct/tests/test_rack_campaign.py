"""A campaign that holds a place: facts in its bundle, a lapse in its middle, cycled power, options."""

from __future__ import annotations

import argparse
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab, dies, fake_record, once
from resume_kit import resume

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_USAGE, LabError, UsageError
from pqevidence.record.faults import power_cycles
from pqevidence.scenario import Overrides, Scenario, load_scenario
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.engine import Campaign, Surroundings
from pqlab.campaign.place import NO_PLACE, PlaceFacts
from pqlab.campaign.store import work_runs
from pqlab.campaign.timeline import Timeline
from pqlab.cli import place as options
from pqlab.cli.main import main

Json = dict[str, Any]
SUITE = "cs-mlkem768-aesgcm-mldsa65"


class FakePlace:
    """A place that lapses when told, and whose power is that of a fake end."""

    def __init__(self, lab: FakeLab, powered: tuple[str, ...] = ()) -> None:
        self.name = "rack-1"
        self.facts: PlaceFacts = {"name": "rack-1", "tags": {"board": "pi4"}, "coordinator_version": "26.0.1"}
        self.powered = frozenset(powered)
        self.lapsed = False
        self.cycled: list[str] = []
        self._lab = lab

    def require_held(self) -> None:
        if self.lapsed:
            raise LabError(
                "place-lapsed", "rack-1 is no longer held", "somebody cancelled it", "see who has it"
            )

    def power_cycle(self, role: str) -> None:
        self.cycled.append(role)
        agent: FakeAgent = getattr(self._lab, role)
        agent.down = True

        def on() -> None:
            agent.restart()
            agent.down = False

        threading.Timer(0.1, on).start()


def test_both_ends_tell_the_place_and_a_run_without_one_tells_none(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path / "1")
    done = Campaign.begin(replace(lab.around(), place=FakePlace(lab)), lab.scenario(1)).carry_out()
    for role in ("drone", "gcs"):
        told = json.loads((done.bundle / "data" / "hosts" / f"{role}.json").read_text())
        assert told["place"] == {"name": "rack-1", "tags": {"board": "pi4"}, "coordinator_version": "26.0.1"}
    assert "place" not in json.loads((done.bundle / "data" / "hosts" / "controller.json").read_text())
    without = FakeLab(tmp_path / "2")
    done = Campaign.begin(without.around(), without.scenario(1)).carry_out()
    assert "place" not in json.loads((done.bundle / "data" / "hosts" / "drone.json").read_text())


def test_a_lapse_stops_the_run_after_the_current_cell_and_nothing_is_lost(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    place = FakePlace(lab)

    def lapse(_agent: FakeAgent) -> None:
        place.lapsed = True

    lab.drone.hooks.append(once("prepare", lapse, at=3))  # the second cell, after a warm-up or two
    with pytest.raises(LabError) as told:
        Campaign.begin(replace(lab.around(), place=place), lab.scenario(5)).carry_out()
    assert (told.value.code, told.value.exit_code) == ("place-lapsed", EXIT_ENVIRONMENT)
    (run_id,) = work_runs(lab.results)
    assert (
        told.value.hint.endswith(f"./pqlab resume {run_id} --out {lab.results}") or run_id in told.value.hint
    )
    records = sorted((lab.results / ".work" / run_id / "data" / "cells").glob("*/record.json"))
    kept = {path.parent.name: path.read_bytes() for path in records}
    assert 1 <= len(kept) < 5, "the cell in which it lapsed was finished, the next was not begun"
    status = json.loads((lab.results / ".work" / run_id / "status.json").read_text())
    assert (status["state"], status["error"]["code"], status["done"]) == (
        "stopped",
        "place-lapsed",
        len(kept),
    )
    place.lapsed = False
    done = resume(lab, place=place)
    assert done.verdict_counts == {"pass": 5}
    for cell_id, record in kept.items():
        assert (done.bundle / "data" / "cells" / cell_id / "record.json").read_bytes() == record


# --- power in the middle of a cell ---------------------------------------------------------------


def cycling(root: Path, role: str) -> Scenario:
    file = root / "cycle.yml"
    file.write_text(
        f"schema: pqlab/scenario/v1\nname: cycle\nsuites: [{SUITE}]\ntraffic: {{session_s: 1}}\n"
        "order: {method: abba}\nconditions:\n"
        f"  - {{name: cycled, events: [{{at_s: 0.2, kind: power_cycle, role: {role}}}]}}\n  - name: after\n"
    )
    return load_scenario(str(file), Overrides(repetitions=1))


def judged(scenario: Scenario) -> Any:
    """The fake records, with the rule for cycled power of the real ones."""
    plain = fake_record({})

    def build(folder: Path, row: Json, context: object) -> Json:
        record = plain(folder, row, context)
        events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
        if found := list(power_cycles(events, scenario.condition(row["condition"]))):
            findings = {"verdict_findings": {"value": {"power_cycle": found[0]}}}
            record |= {"verdict": "invalid", "reason": found[0], "categories": {"R": findings}}
        return record

    return build


def at_rack(lab: FakeLab, place: FakePlace, scenario: Scenario) -> Surroundings:
    for agent in (lab.drone, lab.gcs):
        agent.do_event = dies(lab, agent)  # type: ignore[method-assign]
    return replace(
        lab.around(),
        place=place,
        outputs=replace(lab.outputs, build_record=judged(scenario)),
        timeline=lambda condition, cell, pair, clock, journal, folder: Timeline(
            condition, cell, pair, clock, journal, None, folder=folder, place=place
        ),
    )


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_a_cycled_cell_is_invalid_once_and_the_next_passes(tmp_path: Path, role: str) -> None:
    lab = FakeLab(tmp_path, clock=SystemClock())  # type: ignore[arg-type]
    place, scenario = FakePlace(lab, (role,)), cycling(tmp_path, role)
    done = Campaign.begin(at_rack(lab, place, scenario), scenario).carry_out()
    assert done.verdict_counts == {"invalid": 1, "pass": 1} and done.exit_code == 1
    assert place.cycled == [role], "another attempt would be invalid, too"
    records = [json.loads(path.read_text()) for path in (done.bundle / "data/cells").glob("*/record.json")]
    told = {record["condition"]: record for record in records}
    assert told["cycled"]["reason"] == f"the power of the {role} was cycled at 0.2 s (place rack-1)"
    assert (told["cycled"]["attempts"], told["after"]["attempts"]) == (1, 1)


def test_power_that_nobody_can_cycle_is_said_before_the_first_cell(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    scenario = cycling(tmp_path, "drone")
    for place, why in (
        (NO_PLACE, "the campaign holds no place of a rack"),
        (FakePlace(lab, ("gcs",)), "place rack-1 has no power driver for it"),
    ):
        with pytest.raises(LabError) as told:
            Campaign.begin(replace(lab.around(), place=place), scenario)
        assert (told.value.code, told.value.exit_code, told.value.why) == ("no-power", EXIT_ENVIRONMENT, why)
    assert work_runs(lab.results) == []


# --- options -------------------------------------------------------------------------------------


def words(**given: object) -> argparse.Namespace:
    none: Json = dict.fromkeys(
        ("place", "reserve", "coordinator", "wait_s", "power", "inventory", "keys", "pair")
    )
    return argparse.Namespace(**{**none, **given})


def test_what_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LG_COORDINATOR", raising=False)
    monkeypatch.delenv("LG_ENV", raising=False)
    assert options.wanted_of(words(), None) is None
    named = options.wanted_of(words(place="rack-1"), None)
    assert named is not None
    assert (named.place, named.coordinator, named.wait_s) == ("rack-1", "127.0.0.1:20408", 0.0)
    tagged = options.wanted_of(
        words(reserve=["board=pi4", "sensor=ina219"], wait_s=5.0, coordinator="rack:1"), None
    )
    assert tagged is not None and tagged.tags == {"board": "pi4", "sensor": "ina219"}
    assert (tagged.place, tagged.coordinator, tagged.wait_s) == (None, "rack:1", 5.0)
    monkeypatch.setenv("LG_COORDINATOR", "rack:2")
    again = options.wanted_again(words(), {"name": "rack-7", "tags": {}}, None)
    assert again is not None and (again.place, again.coordinator, again.wait_s) == ("rack-7", "rack:2", 120.0)
    assert options.wanted_again(words(), None, None) is None


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"place": "rack-1", "reserve": ["a=b"]}, "place-and-tag"),
        ({"reserve": ["board"]}, "bad-tag"),
        ({"reserve": ["board="]}, "bad-tag"),
        ({"wait_s": 3.0}, "no-place"),
        ({"coordinator": "rack"}, "no-place"),
        ({"place": "rack-1", "power": "nowhere.yml"}, "no-power-file"),
    ],
)
def test_options_that_say_nothing_together(given: Json, code: str) -> None:
    with pytest.raises(UsageError) as told:
        options.wanted_of(words(**given), None)
    assert (told.value.code, told.value.exit_code) == (code, EXIT_USAGE)


INVENTORY = (
    "[drone]\na ansible_host=192.0.2.1\n[gcs]\nb ansible_host=192.0.2.2\n[all:vars]\npqlab_ring=hardware\n"
)


def test_the_inventory_is_that_of_the_place(tmp_path: Path) -> None:
    for name in ("rack-1", "rack-2"):
        (tmp_path / f"{name}.ini").write_text(INVENTORY + f"pqlab_place={name}\n")
    by_place = words(inventory=str(tmp_path / "{place}.ini"))
    assert options.inventory_before(by_place) is None
    assert options.inventory_at(by_place, "rack-2").place == "rack-2"
    with pytest.raises(UsageError, match="no place is named"):
        options.inventory_at(by_place, None)
    with pytest.raises(LabError) as told:
        options.inventory_at(words(inventory=str(tmp_path / "rack-1.ini")), "rack-2")
    assert told.value.code == "other-place" and "held is rack-2" in told.value.what
    assert options.inventory_at(words(inventory=str(tmp_path / "rack-1.ini")), None).place == "rack-1"


def test_hardware_of_which_nobody_says_where_it_stands_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rack-1.ini"
    file.write_text(INVENTORY)
    with pytest.raises(UsageError) as told:
        options.inventory_at(words(inventory=str(file)), "rack-1")
    assert told.value.code == "which-place" and "pqlab_place=rack-1" in told.value.hint
    assert options.inventory_at(words(inventory=str(tmp_path / "{place}.ini")), "rack-1").place is None
    file.write_text(INVENTORY.replace("hardware", "lab"))
    assert options.inventory_at(words(inventory=str(file)), "rack-1").ring == "lab"


def test_hosts_that_stand_at_a_place_are_held_unasked(tmp_path: Path) -> None:
    file = tmp_path / "rack.ini"
    file.write_text(INVENTORY + "pqlab_place=rack-2\n")
    known = options.inventory_before(words(inventory=str(file)))
    begun = options.wanted_of(words(), known)
    assert begun is not None and (begun.place, begun.wait_s) == ("rack-2", 0.0)
    same = options.wanted_of(words(place="rack-2", wait_s=3.0), known)
    assert same is not None and (same.place, same.wait_s) == ("rack-2", 3.0)
    again = options.wanted_again(words(), None, known)
    assert again is not None and (again.place, again.wait_s) == ("rack-2", 120.0)
    for refused in (
        lambda: options.wanted_of(words(place="rack-1"), known),
        lambda: options.wanted_again(words(), {"name": "rack-1", "tags": {}}, known),
    ):
        with pytest.raises(LabError) as told:
            refused()
        assert told.value.code == "other-place"


@pytest.mark.parametrize("stated", ["", "pqlab_place=rack-2\n"])
def test_any_place_is_not_waited_for_with_the_hosts_of_one(tmp_path: Path, stated: str) -> None:
    file = tmp_path / "rack.ini"
    file.write_text(INVENTORY + stated)
    known = options.inventory_before(words(inventory=str(file)))
    with pytest.raises(UsageError) as told:
        options.wanted_of(words(reserve=["board=pi4"]), known)
    assert told.value.code == "which-place" and "{place}.ini" in told.value.hint


def test_the_command_line_ends_with_the_codes_that_it_publishes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = ["--inventory", str(Path(__file__).resolve().parents[2] / "ansible/inventories/sim.ini")]
    monkeypatch.setattr("pqlab.rack.hold.PYTHON", Path(".venv-nowhere/bin/python"))
    run = ["run", "smoke", *sim, "--out", str(tmp_path)]
    assert main([*run, "--place", "rack-1"]) == EXIT_ENVIRONMENT
    assert "labgrid is not installed" in capsys.readouterr().err
    assert main([*run, "--place", "rack-1", "--reserve", "a=b"]) == EXIT_USAGE
    assert main([*run, "--wait-s", "3"]) == EXIT_USAGE
    assert main([*run, "--place", "rack-1", "--wait-s", "-1"]) == EXIT_USAGE
    assert main([*run, "--place", "rack-1", "--inventory", "no/{place}.ini", "--dry-run"]) == EXIT_USAGE
    assert "rack-1.ini" in capsys.readouterr().err
