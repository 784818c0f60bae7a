"""A place of a real labgrid coordinator: held, refused, waited for, given back, lost; and its power."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from places_kit import Rack, Switch, labgrid_python

from pqevidence.errors import EXIT_ENVIRONMENT, EXIT_USAGE, LabError
from pqlab.rack import hold
from pqlab.rack.hold import Wanted, held
from waiting import LIMIT_S, free_port, wait_for

PLACES = {
    "rack-1": {"board": "pi4", "shelf": "top"},
    "rack-2": {"board": "pi4"},
    "rack-3": {"board": "pi5", "exported": "yes"},
}


@pytest.fixture(autouse=True)
def labgrid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "PYTHON", labgrid_python())


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    rack = Rack(tmp_path_factory.mktemp("rack"), free_port())
    rack.write_places(PLACES)
    rack.start()
    yield rack
    rack.stop()


@pytest.fixture
def own_rack(tmp_path: Path) -> Iterator[Rack]:
    """For a test that ends the coordinator."""
    rack = Rack(tmp_path, free_port())
    rack.write_places(PLACES)
    rack.start()
    yield rack
    rack.stop()


class Notes(list[str]):
    """What a user would read meanwhile."""


def is_lost(place: hold.HeldPlace) -> LabError | None:
    try:
        place.require_held()
    except LabError as error:
        return error
    return None


def test_a_held_place_is_told_and_is_nobody_else_s(rack: Rack) -> None:
    notes = Notes()
    with held(rack.wanted("rack-1"), notes.append) as place:
        assert place.facts == {"name": "rack-1", "tags": PLACES["rack-1"], "coordinator_version": "26.0.1"}
        assert place.powered == frozenset()
        assert "was not reserved for elsewhere/bob" in rack.client("-p", "rack-1", "acquire", fine=False)
        place.require_held()
    assert notes == ["rack-1 is held until this run ends (labgrid 26.0.1)"]
    rack.client("-p", "rack-1", "acquire")
    rack.client("-p", "rack-1", "release")


@pytest.mark.parametrize(
    ("asked", "code", "exit_code", "said"),
    [
        ({"place": "rack-9"}, "unknown-place", EXIT_USAGE, "knows no place rack-9"),
        ({"tags": {"board": "pi6"}}, "unknown-tag", EXIT_USAGE, "no place has the tag board=pi6"),
        ({"tags": {"board": "pi5", "shelf": "top"}}, "unknown-tag", EXIT_USAGE, "board=pi5 shelf=top"),
        ({"tags": {"Board": "pi4"}}, "bad-tag", EXIT_USAGE, "names no tag"),
        ({"place": "rack-3"}, "place-not-whole", EXIT_ENVIRONMENT, "lacks a resource"),
        ({"place": "rack-1", "power": "no.yml"}, "bad-power-file", EXIT_USAGE, "cannot read no.yml"),
    ],
)
def test_what_there_is_not_is_refused(
    rack: Rack, asked: dict[str, object], code: str, exit_code: int, said: str
) -> None:
    with pytest.raises(LabError) as told, held(Wanted(rack.address, **asked), print):  # type: ignore[arg-type]
        pass
    assert (told.value.code, told.value.exit_code) == (code, exit_code), told.value.text()
    assert said in told.value.what and told.value.why and told.value.hint
    assert "Reservation" not in rack.client("reservations"), "nothing is left behind"


def test_no_coordinator_is_refused() -> None:
    with pytest.raises(LabError) as told, held(Wanted(f"127.0.0.1:{free_port()}", place="rack-1"), print):
        pass
    assert (told.value.code, told.value.exit_code) == ("no-coordinator", EXIT_ENVIRONMENT)
    assert "--coordinator" in told.value.hint


def test_without_labgrid_the_refusal_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "PYTHON", Path(".venv-nowhere/bin/python"))
    with pytest.raises(LabError) as told, held(Wanted("127.0.0.1:1", place="rack-1"), print):
        pass
    assert (told.value.code, told.value.hint) == ("no-labgrid", "make labgrid-venv")


def test_a_place_that_somebody_acquired_is_refused_with_who_and_since_when(rack: Rack) -> None:
    rack.client("-p", "rack-1", "acquire")
    try:
        with pytest.raises(LabError) as told, held(rack.wanted("rack-1"), print):
            pass
        assert told.value.code == "place-held"
        today = time.strftime("%Y-%m-%d", time.gmtime())
        assert told.value.what.startswith(f"rack-1 is held by elsewhere/bob since {today}")
    finally:
        rack.client("-p", "rack-1", "release")


def test_two_users_of_one_place(rack: Rack) -> None:
    with held(rack.wanted("rack-1"), print) as first:
        with pytest.raises(LabError) as told, held(rack.wanted("rack-1"), print):
            pass
        assert told.value.code == "place-held" and "rack-1 is held by" in told.value.what
        assert told.value.why == "one campaign at a time has a place"
        first.require_held()
    with held(rack.wanted("rack-1"), print):
        pass


def test_who_waits_is_told_for_whom_and_gets_its_turn(rack: Rack) -> None:
    notes = Notes()
    with held(rack.wanted(board="pi4", shelf="top"), print):
        with pytest.raises(LabError) as told, held(rack.wanted("rack-1", wait_s=1.5), notes.append):
            pass
        assert told.value.why == "waited 1.5 s for it"
    assert len(notes) == 1 and notes[0].startswith("waiting for a place: rack-1 is held by ")
    with held(rack.wanted(board="pi4"), print) as one, held(rack.wanted(board="pi4"), print) as other:
        assert {one.name, other.name} == {"rack-1", "rack-2"}


CHILD = """
import sys, time
from pathlib import Path
from pqlab.rack import hold
hold.PYTHON = Path(sys.argv[1])
with hold.held(hold.Wanted(sys.argv[2], place="rack-2"), print):
    print("held", flush=True)
    time.sleep(600)
"""


def controller(rack: Rack) -> subprocess.Popen[str]:
    """A process that holds rack-2 until it is killed."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(labgrid_python()), rack.address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    while (line := child.stdout.readline().strip()) != "held":
        assert line, "it ended without the place"
    return child


def test_a_killed_controller_gives_its_place_back(rack: Rack) -> None:
    child = controller(rack)
    child.send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    child.wait(LIMIT_S)
    with held(rack.wanted("rack-2", wait_s=90), print):
        took_s = time.monotonic() - killed_s
    assert took_s < 90, f"released after {took_s:.1f} s"


def test_a_signal_to_the_warden_is_not_the_controller_s_end(rack: Rack) -> None:
    """Ctrl-C and a service's stop reach both; the place is held until the controller has wound up."""
    child = controller(rack)
    try:
        wardens = subprocess.run(
            ["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=True
        ).stdout.split()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(int(wardens[0]), one)
        time.sleep(1.0)
        with pytest.raises(LabError, match="rack-2 is held by"), held(rack.wanted("rack-2"), print):
            pass
    finally:
        child.kill()
        child.wait(LIMIT_S)


def cancelled(rack: Rack) -> None:
    """As an administrator does."""
    token = rack.client("reservations").split("'")[1]
    rack.client("cancel-reservation", token)


def started_anew(rack: Rack) -> None:
    rack.stop()
    rack.start()


@pytest.mark.parametrize("lose", [cancelled, started_anew])
def test_a_reservation_that_lapses_is_noticed(own_rack: Rack, lose: Callable[[Rack], None]) -> None:
    notes = Notes()
    with held(own_rack.wanted("rack-1"), notes.append) as place:
        place.require_held()
        lose(own_rack)
        wait_for(lambda: is_lost(place) is not None)
        error = is_lost(place)
        assert error is not None and (error.code, error.exit_code) == ("place-lapsed", EXIT_ENVIRONMENT)
        assert error.what == "rack-1 is no longer held" and "was cancelled, or the coordinator" in error.why
    assert notes[1:] == [], "there is nothing left to give back"


def test_a_warden_that_dies_is_a_lost_place(rack: Rack) -> None:
    with held(rack.wanted("rack-1"), print) as place:
        place._warden.kill()
        wait_for(lambda: is_lost(place) is not None)
        error = is_lost(place)
        assert error is not None and "its warden has ended" in error.why
    rack.client("cancel-reservation", rack.client("reservations").split("'")[1])


# --- power ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strip() -> Iterator[Switch]:
    with Switch().serving() as strip:
        yield strip


@pytest.fixture(scope="module")
def powered(rack: Rack, strip: Switch) -> Rack:
    """rack-3 exports the power of its drone, which the place knows by that name."""
    port = {"cls": "NetworkPowerPort", "model": "simplerest", "host": strip.url, "index": 3}
    rack.export({"rack-3": {"drone": port}})
    return rack


def test_an_exported_power_port_is_cycled_and_the_place_stays_held(powered: Rack, strip: Switch) -> None:
    strip.told.clear()
    with held(powered.wanted("rack-3"), print) as place:
        assert place.powered == frozenset({"drone"})
        place.power_cycle("drone")
        assert strip.told == ["/3/0", "/3/1"]
        time.sleep(1.0)
        place.require_held()
        assert "acquired: None" in powered.client("-p", "rack-3", "show"), "acquired for the cycle alone"
        with pytest.raises(LabError, match="no compatible resource"):
            place.power_cycle("gcs")
        place.require_held()


def test_a_driver_that_fails_says_so_and_leaves_the_place_held(powered: Rack, strip: Switch) -> None:
    strip.refuses = True
    try:
        with held(powered.wanted("rack-3"), print) as place:
            with pytest.raises(LabError) as told:
                place.power_cycle("drone")
            assert told.value.code == "power-cycle" and "500" in told.value.why
            assert "acquired: None" in powered.client("-p", "rack-3", "show")
            place.require_held()
    finally:
        strip.refuses = False


def test_a_cycle_that_takes_too_long_is_ended_and_the_end_is_switched_on_again(
    rack: Rack, tmp_path: Path
) -> None:
    """Ended between off and on it would leave the end without power, and every cell after it."""
    log, file = tmp_path / "log", tmp_path / "power.yml"
    slow = tmp_path / "off"
    slow.write_text(f"#!/bin/sh\necho off >> {log}\nexec sleep 60\n")
    slow.chmod(0o755)
    driver = {"cmd_on": f"sh -c 'echo on >> {log}'", "cmd_off": str(slow), "delay": 0.1}
    file.write_text(json.dumps({"targets": {"drone": {"drivers": {"ExternalPowerDriver": driver}}}}))
    wanted = Wanted(rack.address, place="rack-1", power=str(file), poll_s=0.2, power_limit_s=15.0)
    with held(wanted, print) as place:
        with pytest.raises(LabError) as told:
            place.power_cycle("drone")
        assert told.value.why == "it took over 15 s; it was switched on again"
        assert log.read_text().split() == ["off", "on"]
        assert "acquired: None" in rack.client("-p", "rack-1", "show")
        place.require_held()


def test_drivers_of_a_configuration_file(rack: Rack, tmp_path: Path) -> None:
    log = tmp_path / "log"
    driver = {
        "cmd_on": f"sh -c 'echo on >> {log}'",
        "cmd_off": f"sh -c 'echo off >> {log}'",
        "delay": 0.1,
    }
    file = tmp_path / "power.yml"
    file.write_text(json.dumps({"targets": {"gcs": {"drivers": {"ExternalPowerDriver": driver}}}}))
    with held(Wanted(rack.address, place="rack-1", power=str(file)), print) as place:
        assert place.powered == frozenset({"gcs"})
        place.power_cycle("gcs")
    assert log.read_text().split() == ["off", "on"]
