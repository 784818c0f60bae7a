"""An end that is killed because the condition says so: it comes back and gets its orders again."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab, dies

from pqevidence.errors import LabError
from pqlab.campaign import timeline as timeline_module
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.engine import Campaign
from pqlab.campaign.neighbours import NO_NEIGHBOURS, Neighbours
from pqlab.campaign.timeline import Timeline

Json = dict[str, Any]


class Killed:
    """What `docker kill; docker start` does to a fake end."""

    what = "peer_kill"
    lab: FakeLab
    returns = True

    def __init__(self, container: str) -> None:
        self._agent = getattr(self.lab, container)
        self._agent.down = True
        # long enough for a call in progress to notice
        self._back = threading.Timer(0.1, self._start)
        self._back.start()

    def _start(self) -> None:
        if self.returns:
            self._agent.restart()
            self._agent.down = False

    def wait(self) -> None:
        self._back.join()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    lab = FakeLab(tmp_path, clock=SystemClock())  # type: ignore[arg-type]
    monkeypatch.setattr(Killed, "lab", lab, raising=False)
    monkeypatch.setattr(timeline_module, "Restart", Killed)
    monkeypatch.setattr(timeline_module, "container_of", lambda project, role: role)
    for agent in (lab.drone, lab.gcs):
        agent.do_event = dies(lab, agent)  # type: ignore[method-assign]
    lab.drone.do_counters = lambda: {  # type: ignore[method-assign]
        "state": lab.drone.state,
        "cell_id": lab.drone.cell_id,
        "t_ns": 1,
        # the drone dials again as soon as the ground has its orders a second time
        "counters": {"hs_completed": lab.gcs.methods().count("start")},
    }
    return lab


def run(
    lab: FakeLab, role: str, more: str = "", neighbours: Neighbours = NO_NEIGHBOURS
) -> tuple[dict[str, int], Path]:
    scenario = lab.asked(
        "traffic: {session_s: 1}\nconditions:\n"
        f"  - {{name: killed, events: [{{at_s: 0.2, kind: peer_kill, role: {role}}}{more}]}}\n",
        repetitions=1,
    )
    around = replace(
        lab.around(),
        timeline=lambda condition, cell, pair, clock, journal, folder: Timeline(
            condition, cell, pair, clock, journal, None, folder=folder, project="pqlab", neighbours=neighbours
        ),
    )
    done = Campaign.begin(around, scenario).carry_out()
    return done.verdict_counts, next((done.bundle / "data" / "cells").iterdir())


def events_of(folder: Path) -> list[Json]:
    return [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_a_killed_end_is_no_failure_of_its_cell(lab: FakeLab, role: str) -> None:
    counts, folder = run(lab, role)
    assert counts == {"pass": 1}
    told = {row["event"]: row for row in events_of(folder) if row["host"] == "controller"}
    assert told["timed_event"]["role"] == told["recovered"]["role"] == role
    assert 0 < told["recovered"]["agent_ms"] <= told["recovered"]["recovery_ms"]
    assert "error" not in told


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_what_it_used_of_the_processors_is_read_before_it_is_gone(lab: FakeLab, role: str) -> None:
    """Its account goes with it: what it used since the window began would be a neighbour's."""
    agent, alive = getattr(lab, role), []

    class Reader:
        def reading(self) -> Json:
            alive.append(not agent.down)
            return {}

    run(lab, role, neighbours=Reader())
    assert alive == [True]


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_it_gets_the_same_orders_again(lab: FakeLab, role: str) -> None:
    run(lab, role)
    agent = getattr(lab, role)
    first, second = [params for method, params in agent.calls if method == "prepare"][-2:]
    assert first == second and first["suite_id"] == "cs-mlkem768-aesgcm-mldsa65"
    windows = [params["window"] for _, params in agent.calls if params.get("kind") == "traffic_open"]
    assert windows[-1] == "recovered", "a source that its first life started does not run into the next cell"


@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_what_it_knew_of_its_handshakes_is_kept_and_half_ledgers_are_not(lab: FakeLab, role: str) -> None:
    _, folder = run(lab, role)
    names = {path.name for path in folder.iterdir()}
    other = {"drone": "gcs", "gcs": "drone"}[role]
    assert f"ledger.{other}.csv" in names and f"ledger.{role}.csv" not in names
    assert f"telemetry.{role}.lp" not in names
    spans = (folder / "spans.ndjson").read_text().splitlines()
    assert len(spans) == 6  # three of each end
    assert set(json.loads((folder / "counters.json").read_text())) == {"drone", "gcs"}


def test_later_events_of_a_killed_drone_s_window_have_their_time(lab: FakeLab) -> None:
    _, folder = run(lab, "drone", ", {at_s: 0.8, kind: clock_offset, role: gcs, offset_ms: 5}")
    timed = [row["timed"] for row in events_of(folder) if row["event"] == "timed_event"]
    assert timed == ["peer_kill", "clock_offset"]


def test_an_end_that_stays_away_fails_the_cell_and_says_so(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Killed, "returns", False)
    monkeypatch.setattr(timeline_module, "RETURN_S", 0.3)
    with pytest.raises(LabError):  # nobody starts it: the run ends, and keeps the work
        lab_around = replace(lab.around(), recovery_s=0.1)
        lab.around = lambda **_: lab_around  # type: ignore[method-assign]
        run(lab, "gcs")
    (path,) = lab.results.rglob("events.ndjson")
    errors = [row for row in events_of(path.parent) if row["event"] == "error"]
    assert "did not come back within 0.3 s of the kill" in errors[0]["reason"]
