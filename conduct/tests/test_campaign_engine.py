"""The engine's control flow on a lab in memory: order of calls, attempts, lost peers, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fake_agent import FakeAgent, FakeLab, once

from pqevidence.errors import LabError
from pqevidence.plan import Cell
from pqevidence.scenario import Scenario, load_scenario
from pqlab.campaign import begin
from pqlab.campaign.engine import Campaign, Result, Surroundings
from pqlab.campaign.hosts import check_pair, controller_document, different_builds, different_ends
from pqlab.campaign.store import Store
from pqtunnel.rpc import AgentUnreachableError, WrongKeyError
from waiting import LIMIT_S

ENDS = ("at the drone", "at the gcs")


def run(lab: FakeLab, cells: int = 3, *, strict: bool = False) -> Result:
    return Campaign.begin(lab.around(strict=strict), lab.scenario(cells)).carry_out()


def records(bundle: Path) -> list[dict[str, object]]:
    found = [json.loads(p.read_text()) for p in (bundle / "data" / "cells").glob("*/record.json")]
    return sorted(found, key=lambda r: int(r["position"]))


def events(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]


def test_all_pass_is_zero_and_moves_latest(lab: FakeLab) -> None:
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (0, {"pass": 3})
    assert (lab.results / "latest").resolve() == result.bundle.resolve()
    assert not list((lab.results / ".work").iterdir())
    assert [r["position"] for r in records(result.bundle)] == [0, 1, 2]


def test_what_a_link_cannot_carry_is_said_before_the_first_cell(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(_scenario: Scenario, cells: list[Cell]) -> list[str]:
        return [f"beyond the link: {cell.condition}" for cell in cells]

    monkeypatch.setattr(begin, "beyond_links", told)
    run(lab, 1)
    first = next(place for place, line in enumerate(lab.reporter.lines) if line.startswith("cell"))
    assert "beyond the link: baseline" in lab.reporter.lines[:first]


def test_a_cell_is_driven_in_the_contract_s_order(lab: FakeLab) -> None:
    run(lab, 1)
    drone = [m for m in lab.drone.methods() if m not in ("hello", "counters")]
    gcs = [m for m in lab.gcs.methods() if m not in ("hello", "counters")]
    fetches = ["fetch"] * (5 * 2)
    windows = ["traffic_open", "traffic_run"] * 2
    assert drone == ["prepare", "start", "handshake_block", *windows, "stop", *fetches]
    assert gcs == ["prepare", "start", *["traffic_open", "traffic_close"] * 2, "stop", *fetches]


def test_events_of_the_cell_in_progress_can_be_followed_and_are_no_part_of_the_bundle(lab: FakeLab) -> None:
    around = lab.around()
    seen: list[list[dict[str, Any]]] = []
    ended: list[str] = []

    def ends(_position: int, record: dict[str, Any], _eta_s: float | None) -> None:
        (work,) = (lab.results / ".work").iterdir()
        seen.append(Store(lab.results, work.name).told_events())
        ended.append(str(record["cell_id"]))

    around.reporter.cell_ends = ends  # type: ignore[method-assign]
    bundle = Campaign.begin(around, lab.scenario(2)).carry_out().bundle
    assert len(seen) == 2
    for told, cell_id in zip(seen, ended, strict=True):
        kept = [row for row in events(bundle / "data" / "cells" / cell_id) if row["host"] == "controller"]
        assert told == kept, "this cell's, all of them, and of no other"
    assert not list(bundle.rglob("cell-events*"))


def test_power_samples_are_fetched_where_a_fast_sensor_is_and_nowhere_else(lab: FakeLab) -> None:
    row = {"name": "power", "available": True, "reason": None, "sensor_class": "model", "raw": True}
    lab.drone.facts["sensors"] = [row]
    lab.gcs.facts["sensors"] = [{**row, "available": False, "reason": "the rail reads 3.60 V"}]
    bundle = run(lab, 1).bundle
    (cell,) = (bundle / "data" / "cells").iterdir()
    assert (cell / "power.drone.csv").read_text().splitlines() == ["power 0", "power 1", "power 2"]
    assert not (cell / "power.gcs.csv").exists()


def test_raw_files_hold_every_page_of_both_ends(lab: FakeLab) -> None:
    bundle = run(lab, 1).bundle
    (cell,) = (bundle / "data" / "cells").iterdir()
    assert (cell / "ledger.gcs.csv").read_text().splitlines() == ["ledger 0", "ledger 1", "ledger 2"]
    assert len((cell / "spans.ndjson").read_text().splitlines()) == 6
    assert {e["host"] for e in events(cell)} == {"controller", "drone", "gcs"}
    assert set(json.loads((cell / "traffic.json").read_text())["windows"]) == {"traffic", "bulk-600"}
    assert set(json.loads((cell / "counters.json").read_text())) == {"drone", "gcs"}


def test_windows_and_cell_are_bracketed_by_the_controller(lab: FakeLab) -> None:
    bundle = run(lab, 1).bundle
    (cell,) = (bundle / "data" / "cells").iterdir()
    mine = [e for e in events(cell) if e["host"] == "controller"]
    assert (mine[0]["event"], mine[-1]["event"]) == ("prepare", "cell_end")
    marks = [(e["event"], e["window"]) for e in mine if "window" in e]
    names = ("handshake_cold", "traffic", "bulk-600")
    assert marks == [(f"window_{edge}", name) for name in names for edge in ("start", "end")]
    spans = {e["window"]: int(str(e["t_ns"])) for e in mine if e["event"] == "window_start"}
    ends = {e["window"]: int(str(e["t_ns"])) for e in mine if e["event"] == "window_end"}
    assert ends["traffic"] - spans["traffic"] >= 5_000_000_000


def test_an_invalid_cell_is_repeated_and_its_attempts_are_kept(lab: FakeLab) -> None:
    lab.script[1] = ["invalid", "invalid", "pass"]
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (0, {"pass": 3})
    again = records(result.bundle)[1]
    cell = result.bundle / "data" / "cells" / str(again["cell_id"])
    for number in (1, 2):
        kept = json.loads((cell / f"attempt-{number}" / "record.json").read_text())
        assert kept["verdict"] == "invalid"
        assert (cell / f"attempt-{number}" / "ledger.drone.csv").is_file()
    assert not (cell / "attempt-3").exists()
    assert not (cell / "attempt-2" / "attempt-1").exists()


def test_three_invalid_attempts_are_the_end_of_it(lab: FakeLab) -> None:
    lab.script[0] = ["invalid", "invalid", "invalid", "pass"]
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (1, {"invalid": 1, "pass": 2})
    assert [line for line in lab.reporter.lines if line.startswith("cell 0 attempt")] == [
        "cell 0 attempt 1",
        "cell 0 attempt 2 because invalid, as the test says",
        "cell 0 attempt 3 because invalid, as the test says",
    ]


def test_a_failed_cell_is_not_repeated(lab: FakeLab) -> None:
    lab.script[0] = ["fail", "pass"]
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (1, {"fail": 1, "pass": 2})


def test_a_killed_peer_fails_its_cell_and_the_next_goes_on(lab: FakeLab) -> None:
    def killed(agent: FakeAgent) -> None:
        agent.restart()
        agent.down = True

        def back(other: FakeAgent, method: str, params: dict[str, object]) -> None:
            if lab.clock.monotonic_s() > killed_s + 6.0:
                other.down = False

        killed_s = lab.clock.monotonic_s()
        agent.hooks.append(back)

    lab.drone.hooks.append(once("event", killed, kind="traffic_run"))
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (1, {"fail": 1, "pass": 2})
    failed = records(result.bundle)[0]
    assert failed["verdict"] == "fail"
    assert "drone" in str(failed["reason"])
    cell = result.bundle / "data" / "cells" / str(failed["cell_id"])
    assert (cell / "ledger.gcs.csv").is_file()  # the end that lived on was asked for its files
    assert not (cell / "ledger.drone.csv").exists()
    assert lab.gcs.state == "idle"


def test_a_peer_that_stays_away_ends_the_run_and_keeps_the_work(lab: FakeLab) -> None:
    def killed(agent: FakeAgent) -> None:
        agent.down = True

    lab.drone.hooks.append(once("event", killed, kind="traffic_run", at=3))
    with pytest.raises(LabError) as caught:
        run(lab)
    assert caught.value.exit_code == 4
    assert "make lab-up" in caught.value.hint
    assert "pqlab resume" in caught.value.hint
    assert not (lab.results / "latest").exists()
    work = next((lab.results / ".work").iterdir())
    assert len(list((work / "data" / "cells").glob("*/record.json"))) == 2 - 1
    assert json.loads((work / "status.json").read_text())["state"] == "stopped"


def test_an_agent_that_refuses_mid_cell_fails_that_cell_only(lab: FakeLab) -> None:
    lab.gcs.hooks.append(once("event", FakeAgent.restart, kind="traffic_close"))
    result = run(lab)
    assert result.verdict_counts == {"fail": 1, "pass": 2}


def test_unsupported_suites_are_recorded_without_a_call(lab: FakeLab) -> None:
    lab.gcs.facts["suites"]["cs-mlkem768-aesgcm-mldsa65"] = {"status": "unsupported", "reason": "no ML-KEM"}
    result = run(lab, 2)
    assert (result.exit_code, result.verdict_counts) == (3, {"unsupported": 2})
    assert "prepare" not in lab.drone.methods()
    assert records(result.bundle)[0]["reason"] == "gcs: no ML-KEM"
    lab2 = FakeLab(lab.root / "strict")
    lab2.gcs.facts["suites"]["cs-mlkem768-aesgcm-mldsa65"] = {"status": "unsupported", "reason": "no ML-KEM"}
    assert run(lab2, 1, strict=True).exit_code == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            {"providers": {"liboqs": {"version": "0.14.0", "sha256": "aa"}, "python": "3.13.0"}},
            "provider-mismatch",
        ),
        (
            {"providers": {"liboqs": {"version": "0.13.0", "sha256": "aa"}, "python": "3.12.9"}},
            "python-mismatch",
        ),
        ({"ring": "sim"}, "wrong-ring"),
        ({"role": "drone"}, "wrong-role"),
        ({"protocol_version": 2}, "protocol-mismatch"),
        ({"selftest": {"ok": False, "items": [{"name": "Falcon-512", "ok": False}]}}, "selftest"),
    ],
)
def test_a_pair_that_does_not_fit_starts_nothing(lab: FakeLab, change: dict[str, object], code: str) -> None:
    lab.gcs.facts.update(change)
    with pytest.raises(LabError) as caught:
        run(lab)
    assert (caught.value.code, caught.value.exit_code) == (code, 4)
    assert caught.value.hint
    assert not (lab.results / ".work").exists()


@pytest.mark.parametrize("played", [{"wine": "10.0"}, {"emulated": "qemu-user"}])
def test_a_machine_that_another_plays_is_no_hardware(lab: FakeLab, played: dict[str, str]) -> None:
    facts = {
        role: {**agent.facts, "ring": "hardware"} for role, agent in (("drone", lab.drone), ("gcs", lab.gcs))
    }
    scenario = Mock(ring="hardware", data={})
    check_pair(facts, scenario)
    facts["gcs"]["host"] = {**facts["gcs"]["host"], **played}
    with pytest.raises(LabError, match="played by another machine") as caught:
        check_pair(facts, scenario)
    assert (caught.value.code, caught.value.exit_code) == ("wrong-ring", 4)


def test_pythons_patch_level_is_nobodys_choice_and_its_minor_version_is() -> None:
    ends: dict[str, dict[str, Any]] = {
        role: {"host": {"machine": "x86_64"}, "providers": {"python": version, "core": {"sha256": "aa"}}}
        for role, version in (("drone", "3.13.5"), ("gcs", "3.13.7"))
    }
    assert different_ends(ends) == []
    ends["gcs"]["providers"]["python"] = "3.12.5"
    assert different_ends(ends) == ["python (3.13 at the drone, 3.12 at the gcs)"]
    # one end at two times is another matter: there somebody installed something
    assert different_builds({"python": "3.13.5"}, {"python": "3.13.7"}, binaries=True, named=ENDS) != []


def test_binaries_of_two_systems_are_not_compared() -> None:
    ends: dict[str, dict[str, Any]] = {
        role: {"host": {"machine": "AMD64", "os": system}, "providers": {"core": {"sha256": digest}}}
        for role, system, digest in (("drone", "linux", "aa"), ("gcs", "windows", "bb"))
    }
    assert different_ends(ends) == []
    ends["drone"]["host"]["os"] = "windows"
    assert different_ends(ends) == ["core (aa at the drone, bb at the gcs)"]


def test_one_build_is_one_build_wherever_its_files_lie() -> None:
    """An image keeps liboqs in /opt, an archive on a host below the folder of its digest."""
    image, host = ({"liboqs": {"sha256": "aa", "path": f"{top}/opt/liboqs"}} for top in ("", "/opt/pqlab/x"))
    assert different_builds(image, host, binaries=True, named=ENDS) == []
    host["liboqs"]["sha256"] = "bb"
    assert different_builds(image, host, binaries=True, named=ENDS) == [
        "liboqs (aa at the drone, bb at the gcs)"
    ]
    assert different_builds(image, host, binaries=False, named=ENDS) == []


def test_an_unreachable_lab_says_how_to_start_it(lab: FakeLab) -> None:
    lab.gcs.down = True
    with pytest.raises(LabError) as caught:
        run(lab)
    assert caught.value.exit_code == 4
    assert "make lab-up" in caught.value.hint
    assert "does not answer" in caught.value.why


def test_a_wrong_key_is_not_waited_for(lab: FakeLab) -> None:
    def refuse(agent: FakeAgent) -> None:
        raise WrongKeyError("refused", hint="make keys")

    lab.drone.hooks.append(once("counters", refuse))
    before_s = lab.clock.monotonic_s()
    with pytest.raises(LabError) as caught:
        run(lab)
    assert "make keys" in caught.value.hint
    assert lab.clock.monotonic_s() - before_s < 1.0


def test_a_dead_controller_s_cell_is_stopped_first(lab: FakeLab) -> None:
    for agent in (lab.drone, lab.gcs):
        agent.state, agent.cell_id = "running", "feedfeedfeedfeed"
    assert run(lab, 1).verdict_counts == {"pass": 1}
    stops = [params["cell_id"] for method, params in lab.drone.calls if method == "stop"]
    assert stops[0] == "feedfeedfeedfeed"


@pytest.mark.parametrize("shared", [True, False])
def test_a_run_says_whether_its_controller_sat_on_a_measured_machine(lab: FakeLab, shared: bool) -> None:
    if shared:
        lab.drone.facts["host"]["boot_id"] = controller_document()["host"]["boot_id"]
    told = json.loads((run(lab, 1).bundle / "data" / "run.json").read_text())
    assert told["controller"]["controller_on_dut"] is shared


def hardware(lab: FakeLab) -> Surroundings:
    for agent in (lab.drone, lab.gcs):
        agent.facts["ring"] = "hardware"
        agent.state, agent.cell_id = "running", "somebody-elses"
    file = lab.root / "test.yml"
    lab.scenario(1)
    file.write_text(file.read_text() + "ring: hardware\n")
    return lab.around()


def test_on_hardware_a_cell_of_another_controller_is_left_alone(lab: FakeLab) -> None:
    around = hardware(lab)
    with pytest.raises(LabError) as caught:
        Campaign.begin(around, load_scenario(str(lab.root / "test.yml"))).carry_out()
    assert caught.value.code == "lab-busy"
    assert "stop" not in lab.drone.methods()


def test_on_hardware_the_watchdog_is_waited_for(lab: FakeLab) -> None:
    around = hardware(lab)
    since_s = lab.clock.monotonic_s()

    def watchdog(agent: FakeAgent, method: str, params: dict[str, object]) -> None:
        if agent.cell_id == "somebody-elses" and lab.clock.monotonic_s() > since_s + 60:
            agent.restart()

    for agent in (lab.drone, lab.gcs):
        agent.hooks.append(watchdog)
    result = Campaign.begin(around, load_scenario(str(lab.root / "test.yml"))).carry_out()
    assert result.verdict_counts == {"pass": 1}


def test_a_database_that_is_away_is_a_warning(lab: FakeLab) -> None:
    from dataclasses import replace

    def away(lines: list[str]) -> list[dict[str, object]]:
        raise LabError("influx-unreachable", "InfluxDB cannot be reached", "refused", "make lab-status")

    lab.outputs = replace(lab.outputs, reconcile=away)
    result = run(lab)
    assert (result.exit_code, result.verdict_counts) == (3, {"pass": 3})
    told = json.loads((result.bundle / "data" / "run.json").read_text())
    assert told["influx"]["available"] is False
    assert told["warnings"]
    (line,) = (line for line in lab.reporter.lines if "InfluxDB" in line)
    assert line.endswith("cannot be reached (refused); the record is the files; next: make lab-status")


def test_points_missing_in_the_database_are_a_warning(lab: FakeLab) -> None:
    from dataclasses import replace

    row = {"series": "pq_cpu,host=drone", "file_count": 3, "influx_count": 2, "ok": False, "differences": []}
    lab.outputs = replace(lab.outputs, reconcile=lambda lines: [row])
    result = run(lab, 2)
    assert result.exit_code == 3
    told = json.loads((result.bundle / "data" / "run.json").read_text())["influx"]
    assert told["available"] is True
    assert [cell["series"][0]["influx_count"] for cell in told["cells"]] == [2, 2]
    (line,) = (line for line in lab.reporter.lines if "InfluxDB" in line)
    assert "in 2 series; the record is the files; next: docker logs pqlab-influxdb-1" in line


def test_a_long_session_keeps_the_other_end_s_watchdog_quiet(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ground hears a call while the drone's session goes on in real time."""
    import threading

    heard = threading.Event()
    monkeypatch.setattr("pqlab.campaign.cell._KEEPALIVE_S", 0.01)

    def wait_until_heard(_agent: FakeAgent) -> None:
        assert heard.wait(LIMIT_S)

    def listen(agent: FakeAgent, method: str, params: dict[str, object]) -> None:
        if method == "counters" and agent.state == "running":
            heard.set()

    lab.drone.hooks.append(once("event", wait_until_heard, kind="traffic_run"))
    lab.gcs.hooks.append(listen)
    assert run(lab, 1).verdict_counts == {"pass": 1}
    assert heard.is_set()


def test_a_lost_answer_is_not_a_lost_run(lab: FakeLab) -> None:
    """Fetching breaks off: the cell fails with a reason, what came is kept, the next cell passes."""

    def lose(agent: FakeAgent) -> None:
        raise AgentUnreachableError("the connection broke", hint="make lab-status")

    lab.gcs.hooks.append(once("fetch", lose, at=3))
    result = run(lab)
    assert result.verdict_counts == {"fail": 1, "pass": 2}
    failed = records(result.bundle)[0]
    cell = result.bundle / "data" / "cells" / str(failed["cell_id"])
    assert (cell / "ledger.drone.csv").is_file()


def extended(lab: FakeLab, more: str) -> Scenario:
    lab.scenario()
    file = lab.root / "test.yml"
    file.write_text(file.read_text() + more)
    return load_scenario(str(file))


def prepared(agent: FakeAgent) -> list[dict[str, object]]:
    return [params for method, params in agent.calls if method == "prepare"]


def test_pooled_handshakes_come_after_the_cold_ones_in_a_window_of_their_own(lab: FakeLab) -> None:
    scenario = extended(lab, "handshake: {count: 9, pooled: {count: 7}}\n")
    result = Campaign.begin(lab.around(), scenario).carry_out()
    blocks = [p for _, p in lab.drone.calls if p.get("kind") == "handshake_block"]
    assert [(b["count"], b.get("pooled")) for b in blocks] == [(9, None), (7, True)]
    assert [p["target"] for _, p in lab.gcs.calls if p.get("kind") == "key_pool"] == [7, 0]
    cell = next((result.bundle / "data" / "cells").iterdir())
    opened = [e["window"] for e in events(cell) if e["event"] == "window_start"]
    assert opened == ["handshake_cold", "key_pool", "handshake_pooled", "traffic", "bulk-600"]


def test_both_ends_are_told_that_the_drone_signs_and_only_then(lab: FakeLab) -> None:
    scenario = extended(lab, "conditions: [{name: psk}, {name: both, drone_auth: signature}]\n")
    Campaign.begin(lab.around(), scenario).carry_out()
    for agent in (lab.drone, lab.gcs):
        assert sorted(str(p.get("drone_auth")) for p in prepared(agent)) == ["None", "signature"]
