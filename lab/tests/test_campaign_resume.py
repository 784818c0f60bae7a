"""A controller that dies, is stopped or runs out of disk loses nothing, and resume runs only what is missing.

The kill is real: a child is sent SIGKILL at each of its renames in turn, before and after (kill_child.py).
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent, FakeLab, once

from pqlab.campaign.engine import Campaign, Result
from pqlab.campaign.store import Store, work_runs
from pqlab.errors import LabError
from pqlab.scenario.load import load_effective


def resume(lab: FakeLab, **options: Any) -> Result:
    (run_id,) = work_runs(lab.results)
    store = Store(lab.results, run_id)
    scenario = load_effective(store.data / "scenario.effective.yml")
    return Campaign.resume(replace(lab.around(), **options), store, scenario).carry_out()


def finished(lab: FakeLab) -> dict[str, bytes]:
    return {p.parent.name: p.read_bytes() for p in (lab.results / ".work").glob("*/data/cells/*/record.json")}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_9_at_any_rename(tmp_path: Path, moment: str) -> None:
    """Documents, raw files, records, cell renames, the seal: killed there, nothing is lost."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kill_child.py")), str(tmp_path), moment],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    *killed, last = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert done.stdout.splitlines()[-1] == f"{last} finished 0"
    resumed = 0
    for rename in killed:
        lab = FakeLab(tmp_path / str(rename))
        sealed = (lab.results / "latest").exists()
        if sealed or not work_runs(lab.results):
            # before its plan there is no run to resume; after the seal there is nothing left to do
            assert sealed or not finished(lab)
            continue
        kept = finished(lab)
        for agent in (lab.drone, lab.gcs):
            agent.state, agent.cell_id = "running", "of-the-dead-controller"
        result = resume(lab)
        assert (result.exit_code, result.verdict_counts) == (0, {"pass": 2})
        for cell_id, content in kept.items():
            assert (result.bundle / "data" / "cells" / cell_id / "record.json").read_bytes() == content
        assert sorted(p.name for p in result.bundle.iterdir()) == ["data"]
        resumed += 1
    assert resumed > 15


@pytest.mark.parametrize("again", [False, True])
def test_resume_runs_what_is_missing_and_what_failed_when_asked(tmp_path: Path, again: bool) -> None:
    lab = FakeLab(tmp_path, script={0: ["fail", "pass"], 1: ["pass"]})

    def stop(agent: FakeAgent) -> None:
        raise KeyboardInterrupt

    lab.drone.hooks.append(once("event", stop, kind="traffic_run", at=5))
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(4)).carry_out()
    assert caught.value.code == "interrupted"
    assert f"./pqlab resume {work_runs(lab.results)[0]} --out " in caught.value.hint
    assert lab.drone.state == lab.gcs.state == "idle"
    assert not (lab.results / "latest").exists()
    kept = finished(lab)
    assert len(kept) == 2
    lab.drone.calls.clear()
    lab.reporter.lines.clear()
    result = resume(lab, rerun_failed=again)
    assert result.verdict_counts == ({"pass": 4} if again else {"fail": 1, "pass": 3})
    carried = [line for line in lab.reporter.lines if "attempt" in line]
    assert carried == ["cell 0 attempt 2"] * again + ["cell 2 attempt 1", "cell 3 attempt 1"]
    for cell_id, content in kept.items():
        path = result.bundle / "data" / "cells" / cell_id
        first = path / ("attempt-1" if (path / "attempt-1").is_dir() else "")
        assert (first / "record.json").read_bytes() == content
    run = json.loads((result.bundle / "data" / "run.json").read_text())
    assert len(run["sessions"]) == 2


def test_the_failed_attempt_is_kept_beside_its_repetition(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path, script={0: ["fail", "invalid", "pass"]})

    def stop(agent: FakeAgent) -> None:
        raise KeyboardInterrupt

    lab.drone.hooks.append(once("prepare", stop, at=2))
    with pytest.raises(LabError):
        Campaign.begin(lab.around(), lab.scenario(2)).carry_out()
    bundle = resume(lab, rerun_failed=True).bundle
    verdicts = {
        p.parent.name: json.loads(p.read_text())["verdict"]
        for p in (bundle / "data" / "cells").glob("*/attempt-*/record.json")
    }
    assert verdicts == {"attempt-1": "fail", "attempt-2": "invalid"}


def test_other_builds_are_refused(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)

    def stop(agent: FakeAgent) -> None:
        raise KeyboardInterrupt

    lab.drone.hooks.append(once("prepare", stop, at=2))
    with pytest.raises(LabError):
        Campaign.begin(lab.around(), lab.scenario(2)).carry_out()
    for agent in (lab.drone, lab.gcs):
        agent.facts["providers"] = {**agent.facts["providers"], "python": "3.13.1"}
    with pytest.raises(LabError) as caught:
        resume(lab)
    assert caught.value.code == "builds-changed"


def test_a_full_disk_says_so_and_keeps_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab(tmp_path)
    real, room = Path.write_bytes, [60]

    def write(self: Path, data: bytes) -> int:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(8)).carry_out()
    assert (caught.value.code, caught.value.exit_code) == ("disk-full", 4)
    assert "space" in caught.value.what
    assert "pqlab resume" in caught.value.hint
    assert lab.drone.state == "idle"
    kept = finished(lab)
    assert 0 < len(kept) < 8
    assert not (lab.results / "latest").exists()
    monkeypatch.undo()
    assert resume(lab).verdict_counts == {"pass": 8}


def test_too_little_disk_is_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = FakeLab(tmp_path)
    usage = type("Usage", (), {"free": 100_000})
    monkeypatch.setattr("pqlab.campaign.begin.shutil.disk_usage", lambda _path: usage)
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(2))
    assert "space" in caught.value.what
    assert "prepare" not in lab.drone.methods()


def test_two_controllers_never_share_a_run(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    first = Campaign.begin(lab.around(), lab.scenario(1))
    (run_id,) = work_runs(lab.results)
    assert Store(lab.results, run_id).is_locked()
    with pytest.raises(LabError) as caught:
        resume(lab)
    assert caught.value.code == "run-busy"
    assert first.carry_out().verdict_counts == {"pass": 1}


def test_a_seal_that_fails_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    def refuse(work: Path, results: Path, secrets: list[Path]) -> Path:
        raise LabError("secret-found", "a key is in there", "", "remove it")

    lab = FakeLab(tmp_path)
    good = lab.outputs
    lab.outputs = replace(good, seal=refuse)
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    assert caught.value.code == "secret-found"
    lab.outputs = good
    assert resume(lab).verdict_counts == {"pass": 1}


def test_a_disk_that_fills_up_at_the_report_says_so(tmp_path: Path) -> None:
    def full(_root: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lab = FakeLab(tmp_path)
    good = lab.outputs
    lab.outputs = replace(good, render=full)
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    assert caught.value.code == "disk-full"
    assert "pqlab resume" in caught.value.hint
    lab.outputs = good
    assert resume(lab).verdict_counts == {"pass": 1}


def test_a_search_for_no_secrets_is_refused(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    campaign = Campaign.begin(lab.around(), lab.scenario(1))
    for key in (tmp_path / "keys").rglob("*.key.pem"):
        key.unlink()
    with pytest.raises(LabError) as caught:
        campaign.carry_out()
    assert caught.value.code == "missing-key"
