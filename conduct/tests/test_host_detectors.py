"""Detectors on a provisioned drone: moved through its agent, found by the inventory, proved by its canary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeClock, FakeConnection, FakeLab

from pqevidence.errors import LabError, UsageError
from pqevidence.measures.detector.record import episodes_of
from pqevidence.plan import Cell
from pqevidence.record.attack import FILE
from pqevidence.record.raw import read_ndjson
from pqevidence.scenario.attacks import attacked
from pqlab.campaign.agents import Agent, Pair
from pqlab.campaign.canary import canary_condition
from pqlab.campaign.detectors import ComposeDetector
from pqlab.campaign.host_detectors import HostDetector, detectors_of
from pqlab.campaign.journal import Journal
from pqlab.campaign.residents import Residents
from pqlab.campaign.timeline import Timeline
from pqlab.inventory import DETECTORS, AgentAddress, load_inventory
from pqtunnel.rpc import AgentUnreachableError, RemoteError
from waiting import LIMIT_S

Json = dict[str, Any]
DRONE = AgentAddress("drone", "pi", "192.0.2.10", 48080)
FACTS = {"model": "xgboost-5w", "sha256": "ab", "code_sha256": "77", "card": {"sha256": "ab"}}


class Drone(FakeAgent):
    """An agent with detectors beside it."""

    def __init__(self) -> None:
        super().__init__("drone", FakeClock())
        self.asked: list[str] = []
        self.refuses: RemoteError | None = None

    def do_detector(self, name: str, action: str) -> Json:
        self.asked.append(f"{name} {action}")
        if self.refuses is not None:
            raise self.refuses
        return dict(FACTS) if action == "facts" else {"cpu_ns": 5, "frozen": True}


def refusal(code: str) -> RemoteError:
    return RemoteError("it does not", code=code, hint="provision", rpc_code=-32000, data={})


@pytest.fixture
def drone() -> Drone:
    return Drone()


@pytest.fixture
def detector(drone: Drone) -> HostDetector:
    return HostDetector("xgboost", lambda: Agent(DRONE, lambda _: FakeConnection(drone)))


def test_each_step_of_a_campaign_reaches_the_drone(drone: Drone, detector: HostDetector) -> None:
    detector.start()
    detector.freeze()
    detector.thaw()
    detector.forget()
    detector.mark()
    assert detector.usage()["cpu_ns"] == 5
    detector.stop()
    steps = ["wake", "sleep", "wake", "forget", "mark", "usage", "sleep"]
    assert drone.asked == [f"xgboost {step}" for step in steps]


def test_what_it_is_comes_from_the_service(detector: HostDetector) -> None:
    facts = detector.facts()
    assert (facts["image_id"], facts["model"], facts["card"]) == ("sha256:77", "xgboost-5w", {"sha256": "ab"})


def test_facts_that_lack_something_are_refused(
    detector: HostDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(FACTS, "code_sha256")
    with pytest.raises(LabError, match="does not say what it is"):
        detector.facts()


def test_a_missing_one_is_an_error_where_it_is_needed_and_nothing_to_stop(
    drone: Drone, detector: HostDetector
) -> None:
    drone.refuses = refusal("no_detector")
    with pytest.raises(LabError) as caught:
        detector.start()
    assert (caught.value.code, caught.value.hint) == ("no-detector", "provision")
    detector.stop()


def test_one_that_does_not_stand_still_is_told_even_at_the_end(drone: Drone, detector: HostDetector) -> None:
    drone.refuses = refusal("detector_stuck")
    with pytest.raises(LabError) as caught:
        detector.stop()
    assert caught.value.code == "detector-stuck"


def test_a_drone_that_is_gone_ends_no_campaign_twice(drone: Drone, detector: HostDetector) -> None:
    drone.down = True
    detector.stop()
    with pytest.raises(LabError):
        detector.freeze()


def test_an_agent_that_was_started_again_is_found_again(drone: Drone, detector: HostDetector) -> None:
    lost = [True]

    def once(agent: FakeAgent, method: str, params: Json) -> None:
        if lost.pop() if lost else False:
            raise AgentUnreachableError("connection reset", hint="")

    drone.hooks.append(once)
    detector.freeze()
    assert drone.asked == ["xgboost sleep"]


# ---------------------------------------------------------------------- inventory


def inventory(tmp_path: Path, value: str, project: str = "") -> Any:
    file = tmp_path / "hosts.ini"
    file.write_text(
        f"[drone]\npi ansible_host=192.0.2.10{value}\n[gcs]\nstation ansible_host=192.0.2.20\n"
        f"[lab:children]\ndrone\ngcs\n[lab:vars]\npqlab_compose_project={project}\n"
    )
    return load_inventory(str(file))


def test_the_inventory_says_which_are_installed(tmp_path: Path) -> None:
    lab = inventory(tmp_path, " pqlab_detectors=tst,xgboost,tst", "pqlab")
    assert lab.detectors == ("tst", "xgboost")
    found = detectors_of(lab, lambda _: FakeConnection(Drone()), lambda _: None)
    assert {name: type(driver) for name, driver in found.items()} == {
        "tst": HostDetector,
        "xgboost": HostDetector,
    }


def test_without_it_they_are_the_container_labs_or_none(tmp_path: Path) -> None:
    def connect(_: AgentAddress) -> FakeConnection:
        raise AssertionError("nobody is asked")

    found = detectors_of(inventory(tmp_path, "", "pqlab"), connect, lambda _: None)
    assert set(found) == set(DETECTORS)
    assert {type(driver) for driver in found.values()} == {ComposeDetector}
    assert detectors_of(inventory(tmp_path, ""), connect, lambda _: None) == {}


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no detector is named 'lstm'"):
        inventory(tmp_path, " pqlab_detectors=xgboost,lstm")


def test_a_condition_that_names_one_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(LabError) as caught:
        Residents([{"detector": "tst"}], {})
    assert "pqlab_detectors" in caught.value.why and "provision.yml" in caught.value.hint


# ---------------------------------------------------------------------- canary


class Sender(Drone):
    """Its canary takes no time and sends what it was asked for."""

    def do_event(self, cell_id: str, kind: str, **params: Any) -> Json:
        if kind != "canary":
            return super().do_event(cell_id, kind, **params)
        return {
            "t_on_ns": 2_000_000_000,
            "t_off_ns": 4_999_000_000,
            "sent_count": 3,
            "ended": "deadline",
            "size_bytes": 120,
            "bin_ns": 20_000_000,
            "bins": [[100, 1], [249, 2]],
        }


CELL = Cell("c0ffee", "cs-mlkem768-aesgcm-mldsa65", "xgboost", 1, 0, 0, seed=7)


def timeline(tmp_path: Path, drone: FakeAgent) -> tuple[Timeline, Journal]:
    lab = FakeLab(tmp_path / "lab")
    lab.drone = drone
    pair = Pair(lab.inventory(), lab.connect)
    condition = canary_condition(
        {"name": "x", "link": "none", "attack": "none", "policy": "none", "rekey": "none"}, by_agent=True
    )
    assert not attacked(condition), "no attacker is needed for it"
    journal = Journal(lab.clock)
    return Timeline(condition, CELL, pair, lab.clock, journal, None, folder=tmp_path), journal


def test_the_drones_own_canary_is_the_cells_ground_truth(tmp_path: Path) -> None:
    drone = Sender()
    drone.state = "running"
    canary, _ = timeline(tmp_path, drone)
    canary.before()
    with canary.during():
        assert canary._thread is not None
        canary._thread.join(LIMIT_S)
    canary.heal()
    canary.heal()
    rows = read_ndjson(tmp_path / FILE)
    assert episodes_of(rows) == [(2_000_000_000, 4_999_000_000)]
    assert [row["sent"] for row in rows if "bin" in row] == [1, 2]
    (_, asked) = next(call for call in drone.calls if call[1].get("kind") == "canary")
    assert (asked["rate_pps"], asked["for_s"]) == (1000, 3.0)


def test_a_canary_that_was_refused_leaves_no_truth(tmp_path: Path) -> None:
    drone = Drone()  # idle: it refuses every event
    canary, journal = timeline(tmp_path, drone)
    with canary.during():
        assert canary._thread is not None
        canary._thread.join(LIMIT_S)
    canary.heal()
    assert not (tmp_path / FILE).exists()
    assert [row["code"] for row in journal.events if row["event"] == "error"] == ["bad_state"]
