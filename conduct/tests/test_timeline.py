"""The timed part of a cell: order, events at their times, and healing that needs no controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeLab
from link_stub import StubLink

from pqevidence.errors import LabError
from pqevidence.plan import Cell
from pqlab.campaign import faults
from pqlab.campaign.agents import AgentFailure, Pair
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.faults import FILLER, DiskFull
from pqlab.campaign.link import HOLD_S, LinkControl
from pqlab.campaign.timeline import Timeline
from pqlink.settings import Side
from waiting import LIMIT_S, wait_for

Json = dict[str, Any]
CELL = Cell("c0ffee", "cs-mlkem768-aesgcm-mldsa65", "lossy", 1, 0, 0, seed=7)
LOSSY: Json = {"delay_ms": 80, "jitter_ms": 10, "loss_pct": 5}


class Notes:
    """A journal that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Json] = []

    def event(self, kind: str, **details: Any) -> None:
        self.rows.append({"event": kind, **details})

    def kinds(self) -> list[str]:
        return [row["event"] for row in self.rows]


@pytest.fixture
def stub() -> Iterator[StubLink]:
    stub = StubLink()
    yield stub
    stub.close()


def make(
    lab: FakeLab, condition: Json, link: LinkControl | None, folder: Path | None = None
) -> tuple[Timeline, Notes]:
    around, notes = lab.around(), Notes()
    pair = Pair(around.inventory, around.connect)
    named = {"name": "lossy", "link": "none", "rekey": "none", "events": [], **condition}
    return Timeline(named, CELL, pair, SystemClock(), notes, link, folder=folder), notes


def test_a_quiet_condition_touches_nothing(lab: FakeLab) -> None:
    timeline, notes = make(lab, {}, None)
    timeline.before()
    with timeline.during():
        pass
    assert timeline.heal() == []
    assert notes.rows == []


def test_the_link_is_set_before_and_clean_after(lab: FakeLab, stub: StubLink, tmp_path: Path) -> None:
    link = LinkControl(stub.address)
    timeline, notes = make(lab, {"link": {"up": LOSSY, "down": {}, "probe": None}}, link, tmp_path)
    timeline.before()
    assert stub.state()["settings"]["up"]["loss_pct"] == 5
    assert stub.requests[0]["seed"] == CELL.seed
    assert timeline.heal() == [{"what": "link"}]
    assert timeline.heal() == []
    state = stub.state()
    assert (state["active"], state["settings"]["up"]["loss_pct"]) == (False, 0)
    assert notes.kinds() == ["link_set", "healed"]
    document = json.loads((tmp_path / "link.json").read_text())
    assert document["set"]["up"] == Side.parse(LOSSY).as_dict()
    assert document["lapsed"] is None
    assert document["router"]["up"]["offered"] == 0


def test_a_missing_router_fails_the_cell_with_its_remedy(lab: FakeLab, stub: StubLink) -> None:
    stub.close()
    timeline, _ = make(lab, {"link": {"up": {}, "down": {}}}, LinkControl(stub.address))
    with pytest.raises(AgentFailure) as caught:
        timeline.before()
    assert caught.value.role == "link"
    assert "lab.sh profile link" in caught.value.hint
    assert timeline.heal() == []


def test_a_route_that_does_not_come_is_no_success(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubLink(routes=False)
    monkeypatch.setattr("pqlab.campaign.link._ROUTES_S", 0.2)
    link = LinkControl(stub.address)
    timeline, _ = make(lab, {"link": {"up": {}, "down": {}}}, link)
    try:
        with pytest.raises(AgentFailure, match="drone, gcs"):
            timeline.before()
        link.close()
        assert stub.state()["active"] is False
    finally:
        stub.close()


def test_events_come_at_their_times_and_end_by_themselves(lab: FakeLab, stub: StubLink) -> None:
    events = [
        {"at_s": 2.5, "kind": "link", "for_s": 0.4, "link": {"up": {"delay_ms": 9}, "down": {}}},
        {"at_s": 0.2, "kind": "partition", "for_s": 0.2},
    ]
    timeline, notes = make(
        lab, {"link": {"up": LOSSY, "down": {}}, "events": events}, LinkControl(stub.address)
    )
    timeline.before()
    with timeline.during():
        wait_for(lambda: bool(stub.state()) and len(stub.ups) >= 5)
    timeline.heal()
    seen = [(up["loss_pct"], up["delay_ms"]) for up in stub.ups]
    assert seen[:5] == [(5, 80), (100, 0), (5, 80), (0, 9), (5, 80)]
    fired = [row["timed"] for row in notes.rows if row["event"] == "timed_event"]
    assert fired == ["partition", "link"]


def test_agents_are_told_on_connections_of_their_own(lab: FakeLab) -> None:
    told: list[tuple[str, Json]] = []

    def take(agent: Any, method: str, params: Json) -> None:
        told.append((agent.role, params))

    for agent in (lab.drone, lab.gcs):
        agent.hooks.append(take)
        agent.do_event = lambda **_: {"done": True}
    events = [
        {"at_s": 0.0, "kind": "clock_offset", "role": "gcs", "offset_ms": 250, "for_s": 1.0},
        {"at_s": 0.0, "kind": "sensor_stall", "role": "drone", "for_s": 1.0},
        {"at_s": 0.0, "kind": "rekey", "suite_id": "cs-mlkem512-aesgcm-mldsa44"},
        {"at_s": 0.0, "kind": "request_rekey"},
    ]
    timeline, notes = make(lab, {"rekey": {"every_s": 1, "count": None}, "events": events}, None)
    timeline.before()
    with timeline.during():
        wait_for(lambda: notes.kinds().count("timed_event") == 4)
    timeline.heal()
    common = {"cell_id": "c0ffee"}
    assert told == [
        ("drone", {**common, "kind": "rekey_schedule", "every_s": 1}),
        ("gcs", {**common, "kind": "clock_offset", "for_s": 1.0, "offset_ms": 250}),
        ("drone", {**common, "kind": "sensor_stall", "for_s": 1.0}),
        ("drone", {**common, "kind": "rekey", "suite_id": "cs-mlkem512-aesgcm-mldsa44"}),
        ("gcs", {**common, "kind": "request_rekey"}),
    ]
    assert notes.kinds().count("timed_event") == 4


def test_an_event_that_cannot_be_carried_out_is_an_error(lab: FakeLab) -> None:
    timeline, notes = make(lab, {"events": [{"at_s": 0, "kind": "peer_kill", "role": "drone"}]}, None)
    with timeline.during():
        wait_for(lambda: len(notes.rows) > 0)
    assert [(row["event"], row["code"]) for row in notes.rows] == [("error", "no-containers")]


def test_an_event_after_the_window_is_said(lab: FakeLab) -> None:
    timeline, notes = make(lab, {"events": [{"at_s": 60, "kind": "rekey"}]}, None)
    with timeline.during():
        pass
    assert notes.kinds() == ["error"]
    assert "rekey at 60" in notes.rows[0]["reason"]


def test_a_link_that_lapsed_within_the_cell_is_an_error(lab: FakeLab, stub: StubLink) -> None:
    timeline, notes = make(lab, {"link": {"up": LOSSY, "down": {}}}, LinkControl(stub.address))
    timeline.before()
    with stub._lock:
        stub.control.tick(time.monotonic_ns() + round((HOLD_S + 1) * 1e9))
    timeline.heal()
    assert [row["code"] for row in notes.rows if row["event"] == "error"] == ["link-lapsed"]


#: takes the link, starts the events, says so, and is killed
_CONTROLLER = """
import sys, time
from link_child import run
run(("127.0.0.1", int(sys.argv[1])), sys.argv[2])
"""


def _child(stub: StubLink, folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER, str(stub.address[1]), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    return child


def test_everything_heals_when_the_controller_is_killed(stub: StubLink, tmp_path: Path) -> None:
    """kill -9 in the middle of a partition: nobody is left to clean up, and it is clean."""
    child = _child(stub, tmp_path)
    wait_for(lambda: stub.state()["settings"]["up"]["loss_pct"] == 100)
    assert stub.state()["settings"]["down"]["loss_pct"] == 100
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_for(lambda: not stub.state()["active"])
    state = stub.state()
    assert state["settings"]["up"]["loss_pct"] == state["settings"]["down"]["loss_pct"] == 0


def test_a_held_link_is_renewed(stub: StubLink) -> None:
    link = LinkControl(stub.address)
    link.take("cell", Side(), Side(), 1)
    time.sleep(HOLD_S + 0.8)
    assert stub.state()["owner"] == "cell"
    assert link.lapsed is None
    link.close()


# ---------------------------------------------------------------------- disk_full


def test_disk_full_is_refused_on_a_real_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqlab.campaign.faults._file_system_of", lambda path: "ext4")
    with pytest.raises(LabError) as caught:
        DiskFull(tmp_path, 1.0)
    assert caught.value.code == "disk-full-refused"
    assert not (tmp_path / FILLER).exists()


def test_disk_full_is_refused_on_a_large_tmpfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pqlab.campaign.faults.DISK_MAX_BYTES", 0)
    with pytest.raises(LabError):
        DiskFull(tmp_path, 1.0)


@pytest.mark.parametrize("over", [False, True])
def test_a_full_disk_has_room_again_before_healing_writes(
    lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    """The cell ends long before `for_s` does; `over`: its time was over already, there is nothing to undo."""
    monkeypatch.setattr("pqlab.campaign.faults._refuse_real_disk", lambda folder: None)
    few = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    few += "resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))\n"
    monkeypatch.setattr("pqlab.campaign.faults._FILL", few + faults._FILL)
    for_s = 0.1 if over else 600.0
    timeline, notes = make(
        lab, {"events": [{"at_s": 0.0, "kind": "disk_full", "for_s": for_s}]}, None, folder=tmp_path
    )
    filler = tmp_path / FILLER
    room: list[bool] = []
    monkeypatch.setattr(timeline, "_keep_canary", lambda: room.append(not filler.exists()) or [])
    with timeline.during():
        assert timeline._thread is not None
        timeline._thread.join(LIMIT_S)

        def is_full() -> bool:
            if over and "timed_event" in notes.kinds() and timeline._full[0]._process.poll() is not None:
                return True
            return filler.exists() and filler.stat().st_size >= 196_608

        wait_for(is_full)
    if over:
        timeline._full[0]._process.wait(timeout=LIMIT_S)
    # It is not waited for until its time is over: then there would be nothing to heal.
    assert timeline.heal() == ([] if over else [{"what": "disk_full"}])
    assert room == [True]
    assert timeline.heal() == []


def test_the_filler_fills_and_leaves(tmp_path: Path) -> None:
    """The watchdog's own program, held to a small limit so that no file system is needed."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))\n" + faults._FILL
    limited = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + limited
    path = tmp_path / FILLER
    for for_s in ("600", "0.5"):
        process = subprocess.Popen([sys.executable, "-c", limited, str(path), for_s])
        if for_s == "600":  # full for as long as it takes to be seen
            wait_for(lambda: path.exists() and path.stat().st_size >= 196_608)
            process.terminate()
        assert process.wait(timeout=LIMIT_S) == 0
        assert not path.exists()
