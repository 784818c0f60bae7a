"""Options of a campaign: stop after failures, some cells only, add to a sealed bundle, cool down first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab

from pqevidence.bundle import seal
from pqevidence.bundle.bag import read_manifest
from pqevidence.errors import EXIT_FAILED, EXIT_USAGE, EXIT_WARNING, LabError
from pqevidence.plan import Cell
from pqevidence.scenario import load_scenario
from pqevidence.scenario.load import load_effective
from pqlab.campaign.engine import Campaign, Result
from pqlab.campaign.eta import Eta
from pqlab.campaign.residents import Residents
from pqlab.campaign.store import Store, work_runs


def begin(lab: FakeLab, cells: int, **options: Any) -> Result:
    return Campaign.begin(replace(lab.around(), **options), lab.scenario(cells)).carry_out()


def resume(lab: FakeLab, **options: Any) -> Result:
    (run_id,) = work_runs(lab.results)
    store = Store(lab.results, run_id)
    scenario = load_effective(store.data / "scenario.effective.yml")
    return Campaign.resume(replace(lab.around(), **options), store, scenario).carry_out()


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# ---------------------------------------------------------------------- max-fail, only


def test_max_fail_stops_early_and_keeps_the_work(lab: FakeLab) -> None:
    lab.script.update({0: ["fail"], 1: ["pass"], 2: ["invalid"] * 3})
    with pytest.raises(LabError) as caught:
        begin(lab, 5, max_fail=2)
    assert (caught.value.code, caught.value.exit_code) == ("max-fail", EXIT_FAILED)
    assert "pqlab resume" in caught.value.hint
    assert lab.drone.methods().count("prepare") == 5  # one, one, and three attempts
    assert resume(lab).verdict_counts == {"fail": 1, "invalid": 1, "pass": 3}


def test_max_fail_does_not_stop_a_run_that_is_over(lab: FakeLab) -> None:
    lab.script.update({1: ["fail"]})
    assert begin(lab, 2, max_fail=1).exit_code == EXIT_FAILED


def test_only_carries_out_what_is_named_and_seals_nothing_else(lab: FakeLab) -> None:
    campaign = Campaign.begin(lab.around(), lab.scenario(4))
    campaign._store.unlock()
    ids = [str(cell.cell_id) for cell in campaign._cells]
    with pytest.raises(LabError) as caught:
        resume(lab, only=(ids[2][:10],))
    assert (caught.value.code, caught.value.exit_code) == ("incomplete", EXIT_WARNING)
    assert "3 of 4 cells" in caught.value.what
    assert not (lab.results / "latest").exists()
    lab.drone.calls.clear()
    result = resume(lab)
    assert result.verdict_counts == {"pass": 4}
    done = [params["cell_id"] for method, params in lab.drone.calls if method == "prepare"]
    assert done == [ids[0], ids[1], ids[3]]


def test_the_status_foretells_while_a_cell_runs(lab: FakeLab) -> None:
    foretold: list[float] = []

    def look(agent: FakeAgent, called: str, params: Any) -> None:
        if called == "prepare":
            foretold.append(Store(lab.results, work_runs(lab.results)[0]).read_status()["eta_s"])

    lab.drone.hooks.append(look)
    begin(lab, 3)
    assert len(foretold) == 3 and foretold[0] > foretold[1] > foretold[2] > 0.0


# ---------------------------------------------------------------------- adding to a bundle


@pytest.fixture
def sealed(lab: FakeLab) -> Path:
    """Two cells, sealed by the real seal."""
    lab.outputs = replace(lab.outputs, seal=seal)
    return begin(lab, 2).bundle


def test_adding_repetitions_runs_the_new_cells_and_keeps_the_old_ones(lab: FakeLab, sealed: Path) -> None:
    before = tree(sealed)
    lab.drone.calls.clear()
    result = begin(lab, 5, into=sealed, token=lambda: "def456")
    assert result.verdict_counts == {"pass": 5}
    assert lab.drone.methods().count("prepare") == 3
    assert tree(sealed) == before
    after = tree(result.bundle)
    for name, content in before.items():
        if name.startswith("data/cells/"):
            assert after[name] == content
    told = json.loads(after["data/run.json"])["lineage"]
    assert [(entry["run_id"], len(entry["cells"])) for entry in told] == [(sealed.name, 2)]
    assert after[f"data/lineage/{sealed.name}/plan.json"] == before["data/plan.json"]
    plan = json.loads(after["data/plan.json"])["cells"]
    assert [row["position"] for row in plan] == [0, 1, 2, 3, 4]
    assert plan[:2] == json.loads(before["data/plan.json"])["cells"]
    assert read_manifest(result.bundle / "manifest-sha512.txt").keys() >= {
        name for name in before if name.startswith("data/cells/")
    }
    crate = json.loads(after["data/ro-crate-metadata.json"])["@graph"]
    (older,) = [e for e in crate if e["@id"] == f"#run-{sealed.name}"]
    assert len(older["result"]) == 2


def test_a_bundle_that_was_added_to_can_be_added_to(lab: FakeLab, sealed: Path) -> None:
    second = begin(lab, 3, into=sealed, token=lambda: "aaaaa2").bundle
    third = begin(lab, 4, into=second, token=lambda: "aaaaa3").bundle
    told = json.loads((third / "data" / "run.json").read_text())["lineage"]
    assert [(entry["run_id"], len(entry["cells"])) for entry in told] == [(sealed.name, 2), (second.name, 1)]
    assert {p.name for p in (third / "data" / "lineage").iterdir()} == {sealed.name, second.name}


def test_a_failed_cell_of_the_earlier_bundle_is_not_touched(lab: FakeLab) -> None:
    lab.outputs = replace(lab.outputs, seal=seal)
    lab.script[0] = ["fail"]
    first = begin(lab, 1).bundle
    result = begin(lab, 2, into=first, rerun_failed=True, token=lambda: "aaaaa2")
    assert result.verdict_counts == {"fail": 1, "pass": 1}


def test_what_cannot_be_added_to_is_refused(lab: FakeLab, sealed: Path) -> None:
    def code(cells: int, **changes: Any) -> tuple[str, int]:
        with pytest.raises(LabError) as caught:
            begin(lab, cells, into=sealed, token=lambda: "bbbbbb", **changes)
        assert caught.value.hint
        return caught.value.code, caught.value.exit_code

    assert code(2) == ("nothing-to-add", EXIT_USAGE)
    assert code(1) == ("other-scenario", EXIT_USAGE)
    for agent in (lab.drone, lab.gcs):
        agent.facts["providers"] = {**agent.facts["providers"], "python": "3.13.9"}
    assert code(3) == ("builds-changed", 4)
    for agent in (lab.drone, lab.gcs):
        agent.facts["providers"] = {**agent.facts["providers"], "python": "3.13.0"}
    (sealed / "data" / "plan.json").write_text("{}")
    assert code(3) == ("damaged", 5)
    (sealed / "bagit.txt").unlink()
    assert code(3) == ("not-sealed", 4)


def _append(root: Path, name: str) -> None:
    with (root / name).open("a") as file:
        file.write(" ")


@pytest.mark.parametrize(
    ("harm", "code", "named"),
    [
        (lambda root: (root / "data" / "more.txt").write_text("x"), "damaged", "data/more.txt is not listed"),
        (lambda root: _append(root, "bagit.txt"), "damaged", "bagit.txt is not as it was sealed"),
        (lambda root: _append(root, "data/plan.json"), "damaged", "data/plan.json is not as it was sealed"),
        (lambda root: (root / "data" / "run.json").unlink(), "damaged", "data/run.json is missing"),
        (lambda root: (root / "tagmanifest-sha512.txt").unlink(), "bag", "the folder is no sealed bundle"),
        (lambda root: (root / "data" / "out").symlink_to("/etc"), "bag", "plain files and folders only"),
    ],
)  # fmt: skip
def test_nothing_is_taken_over_that_is_not_as_it_was_sealed(
    lab: FakeLab, sealed: Path, harm: Callable[[Path], None], code: str, named: str
) -> None:
    harm(sealed)
    with pytest.raises(LabError) as caught:
        begin(lab, 3, into=sealed, token=lambda: "bbbbbb")
    assert (caught.value.code, caught.value.exit_code) == (code, 5)
    assert named in caught.value.why
    assert work_runs(lab.results) == []


def test_a_taken_over_cell_that_lost_its_content_ends_the_run(lab: FakeLab, sealed: Path) -> None:
    """No run can measure another run's cell again."""
    campaign = Campaign.begin(replace(lab.around(token="bbbbbb"), into=sealed), lab.scenario(3))
    campaign._store.unlock()
    cell_id = next((sealed / "data" / "cells").iterdir()).name
    (campaign._store.cell_dir(cell_id) / "events.ndjson").write_bytes(b"")
    with pytest.raises(LabError) as caught:
        resume(lab)
    assert (caught.value.code, caught.value.exit_code) == ("damaged", 4)
    assert cell_id in caught.value.what
    assert "--into" in caught.value.hint
    assert (campaign._store.cell_dir(cell_id) / "record.json").is_file()


def test_another_seed_is_another_campaign(lab: FakeLab, sealed: Path) -> None:
    file = lab.root / "test.yml"
    lab.scenario(3)
    file.write_text(file.read_text() + "seed: 77\nrepetitions: 3\n")
    with pytest.raises(LabError) as caught:
        Campaign.begin(replace(lab.around(), into=sealed), load_scenario(str(file)))
    assert caught.value.code == "other-seed"


# ---------------------------------------------------------------------- thermal gate


def hot(lab: FakeLab, degrees: list[float | None]) -> None:
    """The drone is as hot as the list says, one value a look, the last one for ever."""

    def look(agent: FakeAgent, method: str, params: dict[str, Any]) -> None:
        if method == "hello":
            agent.facts["temperature_c"] = degrees.pop(0) if len(degrees) > 1 else degrees[0]

    lab.drone.hooks.append(look)


def gated(lab: FakeLab) -> tuple[list[dict[str, Any]], float]:
    """Events of the controller in the one cell of a run with a gate at 60 °C and 30 s, and its overhead."""
    file = lab.root / "test.yml"
    lab.scenario(1)
    file.write_text(file.read_text() + "thermal_gate: {below_c: 60, wait_s: 30}\n")
    bundle = Campaign.begin(lab.around(), load_scenario(str(file))).carry_out().bundle
    (cell,) = (bundle / "data" / "cells").iterdir()
    events = [json.loads(line) for line in (cell / "events.ndjson").read_text().splitlines()]
    mine = [event for event in events if event["host"] == "controller"]
    windows = {(e["window"], e["event"]): e["t_ns"] for e in mine if "window" in e}
    inside = sum(
        windows[w, "window_end"] - windows[w, "window_start"] for w, kind in windows if kind == "window_end"
    )
    return mine, (mine[-1]["t_ns"] - mine[0]["t_ns"] - inside) / 1e9


def test_a_hot_host_is_waited_for_outside_the_overhead(lab: FakeLab) -> None:
    hot(lab, [20.0, 20.0, 71.0, 68.0, 59.5])
    events, overhead_s = gated(lab)
    assert [e["event"] for e in events[:3]] == ["window_start", "window_end", "prepare"]
    assert (events[1]["reason"], events[1]["temperature_c"]) == ("cool enough", 59.5)
    assert events[1]["t_ns"] - events[0]["t_ns"] >= 10e9
    assert overhead_s < 1.0
    assert any("71.0 °C" in line for line in lab.reporter.lines)


def test_a_host_that_stays_hot_does_not_stop_the_campaign(lab: FakeLab) -> None:
    hot(lab, [20.0, 80.0])
    events, _ = gated(lab)
    assert (events[1]["reason"], events[1]["temperature_c"]) == ("the wait is over", 80.0)


@pytest.mark.parametrize(
    ("degrees", "reason"), [([41.0], "cool enough"), ([None], "no host measures a temperature")]
)
def test_the_gate_says_why_it_is_open(lab: FakeLab, degrees: list[float | None], reason: str) -> None:
    hot(lab, degrees)
    events, _ = gated(lab)
    assert (events[0]["event"], events[0]["reason"]) == ("thermal_gate", reason)
    assert events[1]["event"] == "prepare"


# ---------------------------------------------------------------------- residents, estimate


def test_a_detector_without_a_driver_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        Residents([{"detector": "tst"}], {})
    assert caught.value.code == "no-detector"


def planned(number: int, suite: str, condition: str = "baseline") -> Cell:
    return Cell(f"{number:016x}", suite, condition, 1, number, 0, 1)


def test_the_estimate_learns_from_finished_cells() -> None:
    cells = [planned(n, "fast" if n % 2 else "slow") for n in range(40)]
    eta = Eta(cells, {("fast", "baseline"): 10.0, ("slow", "baseline"): 30.0})
    assert eta.left_s() == pytest.approx(800.0)
    for cell in cells[:20]:
        eta.finished(cell, 15.0 if cell.suite_id == "fast" else 45.0)
    # half of it is left, and everything took half as long again
    assert eta.left_s() == pytest.approx(600.0, rel=0.05)


def test_without_a_prediction_the_mean_of_what_was_seen_stands_in() -> None:
    cells = [planned(n, "unknown") for n in range(4)]
    eta = Eta(cells, {("unknown", "baseline"): None})
    assert eta.left_s() is None
    eta.finished(cells[0], 7.0)
    assert eta.left_s() == pytest.approx(21.0)


def test_the_estimate_tells_conditions_apart() -> None:
    cells = [planned(0, "fast"), planned(1, "fast", "fleet-1000")]
    eta = Eta(cells, {("fast", "baseline"): 5.0, ("fast", "fleet-1000"): 300.0})
    assert eta.left_s() == pytest.approx(305.0)
    eta.finished(cells[0], 5.0)
    assert eta.left_s() == pytest.approx(300.0)


def test_a_campaign_foretells_each_cell_under_its_condition(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, str]] = set()
    foretold: list[float] = []

    def seconds(_scenario: object, _costs: object, suite_id: str, condition: str) -> float:
        asked.add((suite_id, condition))
        return 100.0

    def look(agent: FakeAgent, called: str, params: Any) -> None:
        if called == "prepare":
            foretold.append(Store(lab.results, work_runs(lab.results)[0]).read_status()["eta_s"])

    monkeypatch.setattr("pqlab.campaign.engine.cell_seconds", seconds)
    lab.drone.hooks.append(look)
    begin(lab, 2)
    assert {condition for _, condition in asked} == {"baseline"}
    assert foretold[0] == pytest.approx(200.0)
