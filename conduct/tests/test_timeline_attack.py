"""Attacks in a cell's timeline: taken before, begun on time, written down after, lost with a reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack_stub import StubAttacker
from fake_agent import FakeLab
from test_timeline import CELL, Notes

from pqattack.settings import Episode
from pqevidence.record.attack import sent_episodes
from pqevidence.record.raw import RawCell, read_ndjson
from pqlab.campaign.agents import AgentFailure, Pair
from pqlab.campaign.attack import AttackControl, AttackFailure
from pqlab.campaign.clock import SystemClock
from pqlab.campaign.timed import is_quiet
from pqlab.campaign.timeline import Timeline
from waiting import wait_for

Json = dict[str, Any]
FORGED: Json = {"kind": "forged", "rate_pps": 500, "target": "drone", "path": "direct"}


@pytest.fixture
def stub() -> Iterator[StubAttacker]:
    stub = StubAttacker()
    yield stub
    stub.close()


def make(folder: Path, condition: Json, attack: AttackControl | None) -> tuple[Timeline, Notes]:
    around, notes = FakeLab(folder).around(), Notes()
    named = {"name": "attacked", "link": "none", "attack": "none", "rekey": "none", "events": [], **condition}
    pair = Pair(around.inventory, around.connect)
    return Timeline(named, CELL, pair, SystemClock(), notes, None, attack, folder=folder), notes


def read(folder: Path) -> list[Any]:
    return sent_episodes(RawCell(folder, attack=read_ndjson(folder / "attack.ndjson")))


def test_a_conditions_attack_and_its_events_are_one_account(stub: StubAttacker, tmp_path: Path) -> None:
    condition = {
        "attack": {**FORGED, "start_s": 0.0, "for_s": 0.2},
        "events": [{"at_s": 2.4, "kind": "attack", "for_s": 0.1, "attack": {"kind": "flood", "seed": 3}}],
    }
    timeline, notes = make(tmp_path, condition, AttackControl(stub.address))
    timeline.before()
    assert [r["op"] for r in stub.requests] == ["take"], "held before the handshakes, so that it hears them"
    with timeline.during():
        wait_for(lambda: stub.ended == ["deadline", "deadline"])
    assert timeline.heal() == [{"what": "attack", "episodes": 2}]
    assert timeline.heal() == []
    asked = [r["attack"] for r in stub.requests if r["op"] == "start"]
    assert [(a["kind"], a["seed"], a["for_s"]) for a in asked] == [
        ("forged", CELL.seed, 0.2),
        ("flood", 3, 0.1),
    ]
    told = read(tmp_path)
    assert [(e.number, e.asked.kind, e.ended) for e in told] == [
        (1, "forged", "deadline"),
        (2, "flood", "deadline"),
    ]
    assert told[0].sent == sum(count for _, count in told[0].bins) == 100
    assert notes.kinds() == ["timed_event", "timed_event", "healed"]
    assert notes.rows[0]["result"] == {"episode": 1}
    assert stub.desk.owner is None


def test_what_still_goes_is_stopped_and_says_so(stub: StubAttacker, tmp_path: Path) -> None:
    condition = {"attack": {**FORGED, "start_s": 0.0, "for_s": 60}}
    timeline, _ = make(tmp_path, condition, AttackControl(stub.address))
    timeline.before()
    with timeline.during():
        wait_for(lambda: stub.desk.running is not None)
    timeline.heal()
    assert [e.ended for e in read(tmp_path)] == ["stopped"]


def test_without_an_attacker_the_cell_fails_with_its_remedy(stub: StubAttacker, tmp_path: Path) -> None:
    condition = {"attack": {**FORGED, "start_s": 0.0, "for_s": 1}}
    stub.close()
    for control in (None, AttackControl(stub.address)):
        timeline, _ = make(tmp_path, condition, control)
        with pytest.raises(AgentFailure) as caught:
            timeline.before()
        assert caught.value.role == "attacker" and "profile attacker" in caught.value.hint
        assert timeline.heal() == []


def test_an_attacker_that_dies_within_the_cell_is_an_error(stub: StubAttacker, tmp_path: Path) -> None:
    condition = {"attack": {**FORGED, "start_s": 0.0, "for_s": 60}}
    control = AttackControl(stub.address)
    timeline, notes = make(tmp_path, condition, control)
    timeline.before()
    with timeline.during():
        wait_for(lambda: stub.desk.running is not None)
        stub.close()
        wait_for(lambda: control.lapsed is not None)
    timeline.heal()
    assert "error" in notes.kinds()
    assert any(row.get("code") == "no-attacker" for row in notes.rows)


def test_what_the_attacker_refuses_is_an_error_of_the_cell(stub: StubAttacker, tmp_path: Path) -> None:
    condition = {
        "events": [{"at_s": 0, "kind": "attack", "for_s": 1, "attack": {"kind": "stray", "rate_pps": 900}}]
    }
    timeline, notes = make(tmp_path, condition, AttackControl(stub.address))
    timeline.before()
    with timeline.during():
        wait_for(lambda: "error" in notes.kinds())
    timeline.heal()
    assert [row["code"] for row in notes.rows if row["event"] == "error"] == ["attack-settings"]


def test_an_episode_waits_for_one_that_ends_late_but_not_for_one_that_is_stuck(stub: StubAttacker) -> None:
    control = AttackControl(stub.address)
    control.take("cell")
    late, stuck, after = (Episode.parse({**FORGED, "seed": 1, "for_s": for_s}) for for_s in (0.3, 30.0, 0.1))
    first = control.start(late)
    assert control.start(stuck)["episode"] == 2, "begun once the first was over"
    assert control.truth(first["episode"])["ended"] == "deadline"
    with pytest.raises(AttackFailure, match="episode 2 is still on") as caught:
        control.start(after)
    assert caught.value.code == "attack-busy"
    control.close()


def test_a_held_attacker_is_renewed_and_lost_in_silence(
    stub: StubAttacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.patient, hold_s = False, 3.0
    monkeypatch.setattr("pqlab.campaign.attack.HOLD_S", hold_s)
    control = AttackControl(stub.address)
    control.take("cell")
    time.sleep(hold_s + 0.3)
    assert stub.desk.owner == "cell" and control.lapsed is None
    control._stop.set()
    wait_for(lambda: stub.desk.tick(time.monotonic_ns()) or stub.desk.owner is None)
    with pytest.raises(AttackFailure, match="does not hold"):
        control.stop()
    control.close()


def test_an_attacked_condition_is_not_quiet() -> None:
    assert not is_quiet({"name": "x", "attack": {**FORGED, "for_s": 1}})
    assert is_quiet({"name": "x", "attack": "none"})
