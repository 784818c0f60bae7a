"""Containers that ended: named in the reason of their cell, and put back before the next."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab, once

from pqevidence.errors import LabError
from pqlab.campaign.engine import Campaign
from pqlab.campaign.supervisor import WATCHED, ComposeSupervisor
from pqlab.campaign.surroundings import Surroundings

Json = dict[str, Any]


@dataclass
class FakeEngine:
    """A container engine in memory: what `docker ps`, `inspect`, `start`, `unpause` and `restart` do."""

    project: str = "pqlab"
    rows: dict[str, Json] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    lab: FakeLab | None = None
    starts: int = 0

    def __post_init__(self) -> None:
        for service in WATCHED:
            self.add(service)

    def add(self, service: str, network: str = "pqlab_air") -> None:
        self.rows[f"id-{service}"] = {
            "Id": f"id-{service}",
            "Config": {"Labels": {"com.docker.compose.service": service}},
            "HostConfig": {"NetworkMode": network},
            "State": {"Status": "running", "ExitCode": 0, "OOMKilled": False, "StartedAt": "0", "Error": ""},
        }

    def end(self, service: str, code: int = 137, *, memory: bool = False, status: str = "exited") -> None:
        self.rows[f"id-{service}"]["State"].update(Status=status, ExitCode=code, OOMKilled=memory)

    def __call__(self, *arguments: str) -> str:
        self.asked.append(" ".join(arguments))
        what = arguments[0]
        if what == "ps":
            assert f"label=com.docker.compose.project={self.project}" in arguments
            every = "-aq" in arguments
            return "".join(
                f"{i}\n" for i, r in self.rows.items() if every or r["State"]["Status"] == "running"
            )
        if what == "inspect":
            return json.dumps([self.rows[one] for one in arguments[1:]])
        row = self.rows[arguments[-1]]
        self.starts += 1
        row["State"].update(Status="running", ExitCode=0, OOMKilled=False, StartedAt=str(self.starts))
        service = row["Config"]["Labels"]["com.docker.compose.service"]
        if self.lab is not None and service in ("drone", "gcs") and what == "start":
            agent: FakeAgent = getattr(self.lab, service)
            agent.restart()
            agent.down = False
        return ""

    def acts(self) -> list[str]:
        return [line for line in self.asked if line.split()[0] not in ("ps", "inspect")]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "container gcs exited with 137"),
        ({"code": 1}, "container gcs exited with 1"),
        ({"memory": True}, "container gcs was out of memory and exited with 137"),
        ({"status": "paused"}, "container gcs is paused"),
        ({"status": "created"}, "container gcs is created"),
    ],
)
def test_what_happened_is_named(engine: FakeEngine, how: Json, told: str) -> None:
    supervisor = ComposeSupervisor("pqlab", print, engine)
    supervisor.mend()
    assert supervisor.amiss() == ([], [])
    engine.end("gcs", **how)
    assert supervisor.amiss() == ([told], ["gcs"] if told.endswith("gcs exited with 137") else [])


@pytest.mark.parametrize(("lost", "told"), [(True, ["container gcs exited with 137"]), (False, [])])
def test_a_kill_that_the_engine_learns_of_later_is_waited_for(
    engine: FakeEngine, lost: bool, told: list[str]
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            engine.end("gcs")

    supervisor = ComposeSupervisor("pqlab", print, engine, sleep)
    supervisor.mend()
    assert supervisor.amiss(lost=lost) == (told, ["gcs"] if told else [])
    assert len(slept) == (3 if lost else 0)


def test_an_end_that_is_lost_without_its_container_is_waited_for_two_seconds(engine: FakeEngine) -> None:
    slept: list[float] = []
    supervisor = ComposeSupervisor("pqlab", print, engine, slept.append)
    supervisor.mend()
    assert supervisor.amiss(lost=True) == ([], [])
    assert sum(slept) == pytest.approx(2.0)


def test_one_that_came_back_by_itself_is_named_too(engine: FakeEngine) -> None:
    supervisor = ComposeSupervisor("pqlab", print, engine)
    supervisor.mend()
    engine.rows["id-drone"]["State"]["StartedAt"] = "later"
    assert supervisor.amiss().told == ["container drone ended and was started again"]
    del engine.rows["id-drone"]
    assert supervisor.amiss().told == ["container drone was removed"]


@pytest.mark.parametrize("service", WATCHED)
def test_an_ended_container_is_put_back(engine: FakeEngine, service: str) -> None:
    supervisor = ComposeSupervisor("pqlab", print, engine)
    engine.end(service)
    assert supervisor.mend() == [f"container {service} exited with 137; it was put back"]
    assert engine.acts() == [f"start id-{service}"]
    assert supervisor.mend() == []


def test_a_paused_one_goes_on(engine: FakeEngine) -> None:
    engine.end("sitl", 0, status="paused")
    ComposeSupervisor("pqlab", print, engine).mend()
    assert engine.acts() == ["unpause id-sitl"]


def test_who_lives_in_its_network_is_restarted_with_it(engine: FakeEngine) -> None:
    """The link's helper of an end has that end's network: of a container that ended it keeps a dead one."""
    engine.add("link-drone", network="container:id-drone")
    engine.add("link-gcs", network="container:id-gcs")
    engine.end("drone")
    ComposeSupervisor("pqlab", print, engine).mend()
    assert engine.acts() == ["start id-drone", "restart --time 1 id-link-drone"]


def test_services_that_a_condition_freezes_are_left_alone(engine: FakeEngine) -> None:
    engine.add("detector-xgboost")
    engine.end("detector-xgboost", 0, status="paused")
    assert ComposeSupervisor("pqlab", print, engine).mend() == []


def test_a_container_that_was_removed_ends_the_run(engine: FakeEngine) -> None:
    supervisor = ComposeSupervisor("pqlab", print, engine)
    supervisor.mend()
    del engine.rows["id-gcs"]
    with pytest.raises(LabError, match="container gcs was removed"):
        supervisor.mend()


def test_an_engine_that_does_not_answer_ends_nothing_and_is_said_once() -> None:
    told: list[str] = []

    def away(*arguments: str) -> str:
        raise LabError("no-engine", "the container engine does not answer", "permission denied", "")

    supervisor = ComposeSupervisor("pqlab", told.append, away)
    assert (supervisor.mend(), supervisor.amiss(lost=True), supervisor.mend()) == ([], ([], []), [])
    assert told == [
        "nobody looks after the containers: the container engine does not answer: permission denied"
    ]


# ---------------------------------------------------------------------- in a campaign


@pytest.fixture
def lab(tmp_path: Path, engine: FakeEngine) -> FakeLab:
    lab = FakeLab(tmp_path)
    engine.lab = lab
    lab.drone.facts["traffic"] = {"sources": ["auto", "embedded"], "auto": "embedded", "ready": True}
    return lab


def around(lab: FakeLab, engine: FakeEngine) -> Surroundings:
    return replace(lab.around(), supervisor=ComposeSupervisor("pqlab", print, engine))


@pytest.mark.parametrize("role", ["drone", "gcs"])
@pytest.mark.parametrize(
    ("how", "told"), [({"code": 1}, "exited with 1"), ({"memory": True}, "was out of memory")]
)
def test_a_dead_end_costs_its_cell_alone_and_no_waiting(
    lab: FakeLab, engine: FakeEngine, role: str, how: Json, told: str
) -> None:
    def die(agent: FakeAgent) -> None:
        engine.end(role, **how)
        agent.down = True

    getattr(lab, role).hooks.append(once("event", die, kind="traffic_open", at=3))
    done = Campaign.begin(around(lab, engine), lab.scenario(3)).carry_out()
    assert done.verdict_counts == {"pass": 2, "fail": 1}
    assert not [line for line in lab.reporter.lines if "waiting" in line], (
        "it has exited: nobody waits for it"
    )
    records = [json.loads(path.read_text()) for path in done.bundle.glob("data/cells/*/record.json")]
    (reason,) = [record["reason"] for record in records if record["verdict"] == "fail"]
    assert reason.startswith(f"container {role} {told}") and f"no {role} agent" in reason
    assert [line for line in lab.reporter.lines if line.startswith(f"container {role} {told}")]


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_a_cell_whose_end_was_killed_from_outside_is_measured_again(
    lab: FakeLab, engine: FakeEngine, role: str
) -> None:
    def die(agent: FakeAgent) -> None:
        engine.end(role)
        agent.down = True

    getattr(lab, role).hooks.append(once("event", die, kind="traffic_open", at=3))
    done = Campaign.begin(around(lab, engine), lab.scenario(3)).carry_out()
    assert done.verdict_counts == {"pass": 3}
    (attempt,) = [
        json.loads(path.read_text()) for path in done.bundle.glob("data/cells/*/attempt-*/record.json")
    ]
    assert attempt["verdict"] == "invalid"
    assert attempt["reason"].startswith(f"container {role} exited with 137; no {role} agent")
    assert f"container {role} exited with 137; it was put back" in lab.reporter.lines


def test_a_dead_vehicle_is_back_before_the_next_cell(lab: FakeLab, engine: FakeEngine) -> None:
    silent_until_s = 0.0

    def die(agent: FakeAgent) -> None:
        nonlocal silent_until_s
        engine.end("sitl", memory=True)
        silent_until_s = lab.clock.monotonic_s() + 8.0

    def answer(agent: FakeAgent, method: str, params: Json) -> None:
        gone = lab.clock.monotonic_s() < silent_until_s
        up = {"sources": ["auto", "embedded"], "auto": "embedded", "ready": True}
        agent.facts["traffic"] = {"available": False, "reason": "connection refused"} if gone else up
        if method == "prepare":
            assert not gone and engine.rows["id-sitl"]["State"]["Status"] == "running"

    lab.drone.hooks += [once("stop", die), answer]
    assert Campaign.begin(around(lab, engine), lab.scenario(2)).carry_out().verdict_counts == {"pass": 2}
    assert engine.acts() == ["start id-sitl"]
    assert "container sitl was out of memory and exited with 137; it was put back" in lab.reporter.lines
