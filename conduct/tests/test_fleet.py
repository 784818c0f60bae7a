"""The fleet of a cell without an engine: orders, files, and each way in which it can go wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pqevidence.errors import LabError, ScenarioError, UsageError
from pqevidence.record.fleet import read_fleet
from pqevidence.scenario import Overrides, load_scenario
from pqlab.campaign import fleet
from pqlab.campaign.fleet import ComposeFleet, Farm, FleetFailure, Flown, fleet_of
from pqlab.inventory import load_inventory
from pqlab.sim.run import stage

SETTINGS = {
    "drones": 2,
    "arrive_s": 0.001,
    "window_s": 0.001,
    "probe_hz": 10,
    "outage_s": 0.1,
    "exchange_count": 1,
    "rate_hz": 320,
    "load_s": 0.2,
    "size_bytes": 64,
    "limit_s": 1,
}
#: a farm that does nothing and says what is due: its rows are one of each kind
PLAYED = r"""
import sys
print("ready", flush=True)
for line in sys.stdin:
    order = line.split()
    print(f"# {line.strip()}", file=sys.stderr, flush=True)
    if order[0] == "load":
        print("load 64 64 " + ("64" if int(order[2]) < 2 else "10"))
    if order[0] == "end":
        for kind, t in (("join", 1), ("quiet", 3), ("rekeying", 5), ("restart", 7), ("outage", 9)):
            print(f"stage,{kind},{t}")
            print(f"waited,{kind},{t + 1}")
        for begin, spread in ((1, 1000), (3, 0), (5, 1000)):
            print(f"arrivals,{begin},{spread}")
        print("listening,1,11")
        print("listening,8,61")
        print("wake,5 6 7")
        print("farm,0,0")
        print("attempt,join,0,1,session,1,1,1,1,1,2,completed")
        print("back,join,0,2")
        print("probe,join,0,2,3")
        print("sample,1,0,5,11,0,5,1")
        print("load,load-1,1,320,64,10,11,64,64,64")
        print('status,join,4,{"hs_started":2}')
    print("done", flush=True)
"""


class Engine:
    """Docker as far as a fleet asks it."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[str] = []
        self.fails = fails

    def __call__(self, *arguments: str) -> str:
        said = " ".join(arguments)
        self.calls.append(said)
        if self.fails and self.fails in said:
            raise LabError("engine", f"docker {arguments[0]} failed", "no such thing", "make lab-status")
        if arguments[:2] == ("image", "inspect"):
            return json.dumps([{"Id": "sha256:00"}])
        if "sha256sum" in arguments:
            return "aa  /usr/local/bin/pqlink\nbb  /usr/local/bin/pqfarm\n"
        return ""


def played(program: str) -> Callable[[list[str], Callable[[], None]], Farm]:
    return lambda command, alive: Farm([sys.executable, "-c", program], alive)


def flown(folder: Path) -> Flown:
    return Flown(SETTINGS, "cs-mlkem768-aesgcm-mldsa65", 7, folder, lambda: None)


def test_a_fleet_leaves_its_files_and_nothing_else(tmp_path: Path) -> None:
    engine = Engine()
    ComposeFleet("pqlab", engine, played(PLAYED)).fly(flown(tmp_path))
    found = read_fleet(tmp_path)
    assert found is not None and found.drones == 2 and found.document["builds"]["pqlink_sha256"] == "aa"
    assert found.document["stages"]["restart"]["gone_ns"] < found.document["stages"]["outage"]["healed_ns"]
    assert found.loads[0].arrived == 64 and found.status["join"] == {"hs_started": 2}
    kills = [call for call in engine.calls if call.startswith("kill")]
    assert kills == ["kill --signal KILL pqlab-fleet-station-1"]
    starts = [call for call in engine.calls if call.startswith("run -d")]
    assert len(starts) == 2 and all("--pid container:pqlab-fleet-farm" in call for call in starts)
    assert all("--read-only --cap-drop ALL" in call and "--network pqlab_air" in call for call in starts)
    # an internal network, keys in memory, and both gone at the end
    assert any("type=tmpfs" in call for call in engine.calls) and "ps -aq" in engine.calls[-2]


def test_a_farm_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    dying = "import sys; print('ready', flush=True); sys.stdin.readline(); sys.exit('out of memory')"
    with pytest.raises(FleetFailure, match="the farm died at `await`") as caught:
        ComposeFleet("pqlab", Engine(), played(dying)).fly(flown(tmp_path))
    assert caught.value.code == "fleet-farm" and "out of memory" in caught.value.why
    assert read_fleet(tmp_path) is None


def test_a_station_that_does_not_answer_is_named(tmp_path: Path) -> None:
    refusing = (
        "import sys; print('ready', flush=True); sys.stdin.readline(); "
        "print('error: the station does not answer on its status socket within 20000 ms', flush=True)"
    )
    with pytest.raises(FleetFailure, match="does not answer on its status socket") as caught:
        ComposeFleet("pqlab", Engine(), played(refusing)).fly(flown(tmp_path))
    assert caught.value.code == "fleet-station"


def test_a_farm_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = "import sys, time; print('ready', flush=True); time.sleep(60)"
    monkeypatch.setattr(fleet, "_SLACK_S", 0.0)
    monkeypatch.setattr(fleet, "_START_S", 0.5)
    with pytest.raises(FleetFailure, match="did not carry out `await`"):
        ComposeFleet("pqlab", Engine(), played(silent)).fly(flown(tmp_path))


def test_an_engine_that_fails_is_the_engines_fault(tmp_path: Path) -> None:
    with pytest.raises(FleetFailure, match="docker volume failed") as caught:
        ComposeFleet("pqlab", Engine("volume create"), played(PLAYED)).fly(flown(tmp_path))
    assert caught.value.code == "fleet-engine"


class Slow(Engine):
    """A container is on its way out, and its volume with it, for some looks more."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks
        self.volume = False

    def __call__(self, *arguments: str) -> str:
        said = super().__call__(*arguments)
        if arguments[:2] == ("volume", "create"):
            self.volume = True
        if self.volume and arguments[:2] == ("ps", "-aq"):
            return "c0ffee" if self.looks else ""
        if arguments[:2] == ("rm", "-f"):
            self.looks -= 1
            raise LabError("engine", "docker rm failed", "removal of c0ffee is already in progress", "")
        if arguments[:2] == ("volume", "ls"):
            return "pqlab-fleet-keys" if self.volume else ""
        if arguments[:2] == ("volume", "rm"):
            self.volume = False
        return said


def test_keys_go_with_a_farm_that_is_slow_to_end(tmp_path: Path) -> None:
    engine = Slow(3)
    ComposeFleet("pqlab", engine, played(PLAYED)).fly(flown(tmp_path))
    assert not engine.volume and read_fleet(tmp_path) is not None


def test_keys_that_stay_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_CLEAR_S", 0.3)
    with pytest.raises(FleetFailure, match="docker rm failed") as caught:
        ComposeFleet("pqlab", Slow(10**6), played(PLAYED)).fly(flown(tmp_path))
    assert "already in progress" in caught.value.why


def test_hosts_that_are_no_containers_have_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(FleetFailure, match="needs the container lab"):
        fleet_of(None).fly(flown(tmp_path))
    with pytest.raises(FleetFailure, match="needs the container lab"):
        fleet.require_image(load_scenario("fleet"), None, print)
    fleet.require_image(load_scenario("smoke"), None, print)  # without a fleet nothing is asked


def test_the_simulation_refuses_a_fleet() -> None:
    with pytest.raises(UsageError, match="asks for fleet"):
        stage(load_scenario("fleet"), load_inventory("ansible/inventories/sim.ini"))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{drones: 1001}", "1001 is above the greatest value 1000"),
        ("{drones: 0}", "0 is below the least value 1"),
        ("{}", "key `drones` is missing"),
        ("{drones: 10, rate: 5}", "unknown key `rate`"),
    ],
)
def test_a_fleet_beyond_its_limits_is_refused_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "one.yml"
    head = "schema: pqlab/scenario/v1\nname: one\nsuites: [cs-mlkem768-aesgcm-mldsa65]\n"
    path.write_text(f"{head}conditions:\n  - name: a\n    fleet: {line}\n")
    with pytest.raises(ScenarioError, match=what):
        load_scenario(str(path))


def test_a_suite_that_does_not_exist_is_refused() -> None:
    with pytest.raises((ScenarioError, UsageError), match="no suite"):
        load_scenario("fleet", Overrides(suites=("cs-mlkem9-aesgcm-mldsa65",)))
