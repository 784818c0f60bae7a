"""A controller that dies, is stopped or runs out of disk loses nothing, and resume runs only what is missing.

The kill is real: a child is sent SIGKILL at each of its renames in turn, before and after (kill_child.py).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bundle_kit import make_sealed
from fake_agent import FakeLab, interrupt, once
from resume_kit import interrupted, resume

from pqevidence.bundle import seal
from pqevidence.errors import LabError
from pqlab.campaign.engine import Campaign
from pqlab.campaign.store import Store, work_runs
from pqlab.cli.main import main
from tools import ended
from waiting import LIMIT_S


def finished(lab: FakeLab) -> dict[str, bytes]:
    return {p.parent.name: p.read_bytes() for p in (lab.results / ".work").glob("*/data/cells/*/record.json")}


def complete(lab: FakeLab) -> set[bytes]:
    """Every record there is, of whatever attempt and wherever the dead controller left it."""
    return {path.read_bytes() for path in (lab.results / ".work").rglob("record.json")}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_9_at_any_rename(tmp_path: Path, moment: str, again: bool) -> None:
    """Documents, raw files, records, cell renames, the seal: killed there, no attempt is lost."""
    script = str(Path(__file__).with_name("kill_child.py"))
    done = ended(
        [sys.executable, script, str(tmp_path), moment, *["again"] * again],
        4 * LIMIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    *killed, last = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert done.stdout.splitlines()[-1] == f"{last} finished 0"
    resumed = 0
    most_attempts = 0
    for rename in killed:
        lab = FakeLab(tmp_path / str(rename))
        sealed = (lab.results / "latest").exists()
        if sealed or not work_runs(lab.results):
            # before its plan there is no run to resume; after the seal there is nothing left to do
            assert sealed or not finished(lab)
            continue
        kept, attempts = finished(lab), complete(lab)
        for agent in (lab.drone, lab.gcs):
            agent.state, agent.cell_id = "running", "of-the-dead-controller"
        result = resume(lab)
        counts = result.verdict_counts
        # what was not begun again stays as it was: asking for it again was the dead controller's order
        failed = again and counts == {"fail": 1, "pass": 1} and len(attempts) <= 2
        assert failed or (result.exit_code, counts) == (0, {"pass": 2})
        assert attempts <= {
            path.read_bytes() for path in (result.bundle / "data" / "cells").rglob("record.json")
        }
        most_attempts = max(most_attempts, len(attempts))
        if not again:
            for cell_id, content in kept.items():
                assert (result.bundle / "data" / "cells" / cell_id / "record.json").read_bytes() == content
        assert sorted(p.name for p in result.bundle.iterdir()) == ["data"]
        resumed += 1
    assert resumed > 15
    assert most_attempts >= (4 if again else 2)


@pytest.mark.parametrize("again", [False, True])
def test_resume_runs_what_is_missing_and_what_failed_when_asked(tmp_path: Path, again: bool) -> None:
    lab = FakeLab(tmp_path, script={0: ["fail", "pass"], 1: ["pass"]})
    lab.drone.hooks.append(once("event", interrupt, kind="traffic_run", at=5))
    with pytest.raises(LabError) as caught:
        Campaign.begin(lab.around(), lab.scenario(4)).carry_out()
    assert (caught.value.code, caught.value.exit_code) == ("interrupted", 130)
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
    interrupted(lab, 2, 2)
    bundle = resume(lab, rerun_failed=True).bundle
    verdicts = {
        p.parent.name: json.loads(p.read_text())["verdict"]
        for p in (bundle / "data" / "cells").glob("*/attempt-*/record.json")
    }
    assert verdicts == {"attempt-1": "fail", "attempt-2": "invalid"}


def test_an_attempt_of_an_interrupted_repetition_is_not_lost(tmp_path: Path) -> None:
    """Asked for again, the second attempt is invalid and complete, the third is interrupted: a plain resume
    goes on there."""
    lab = FakeLab(tmp_path, script={0: ["fail", "invalid", "pass"]})
    lab.drone.hooks += [once("prepare", interrupt, at=2), once("prepare", interrupt, at=3)]
    with pytest.raises(LabError):
        Campaign.begin(lab.around(), lab.scenario(2)).carry_out()
    with pytest.raises(LabError):
        resume(lab, rerun_failed=True)
    lab.reporter.lines.clear()
    result = resume(lab)
    assert "cell 0 attempt 3" in lab.reporter.lines
    assert result.verdict_counts == {"pass": 2}
    kept = (result.bundle / "data" / "cells").glob("*/attempt-*/record.json")
    assert {p.parent.name: json.loads(p.read_text())["verdict"] for p in kept} == {
        "attempt-1": "fail",
        "attempt-2": "invalid",
    }


def test_other_builds_are_refused(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    interrupted(lab, 2, 2)
    for agent in (lab.drone, lab.gcs):
        agent.facts["providers"] = {**agent.facts["providers"], "python": "3.13.1"}
    with pytest.raises(LabError) as caught:
        resume(lab)
    assert caught.value.code == "builds-changed"


MACHINE = {"machine": "aarch64", "cpu_model": "Cortex-A76", "board_model": "Raspberry Pi 5", "kernel": "6.6"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"board_model": "Raspberry Pi 4"}, "board_model (Raspberry Pi 5 then, Raspberry Pi 4 now)"),
        ({"machine": "x86_64", "cpu_model": None}, "machine (aarch64 then, x86_64 now), cpu_model"),
        ({"kernel": "6.12"}, "kernel (6.6 then, 6.12 now)"),
        ({"boot_id": "another", "hostname": "renamed"}, None),
    ],
)
@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_other_hosts_are_refused(
    tmp_path: Path, role: str, change: dict[str, str | None], said: str | None
) -> None:
    """A run killed on one board does not go on on another; one that was started again is the same board."""
    lab = FakeLab(tmp_path)
    for agent in (lab.drone, lab.gcs):
        agent.facts["host"] = {**MACHINE, "boot_id": "boot", "hostname": "fake"}
    interrupted(lab)
    agent = lab.drone if role == "drone" else lab.gcs
    agent.facts["host"] = {**agent.facts["host"], **change}
    if said is None:
        assert resume(lab).verdict_counts == {"pass": 4}
        return
    with pytest.raises(LabError) as caught:
        resume(lab)
    assert (caught.value.code, caught.value.exit_code) == ("hosts-changed", 4)
    assert caught.value.what.startswith(f"the {role} is another machine")
    assert said in caught.value.what


def test_another_controller_is_refused_and_a_newer_kernel_of_it_is_not(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path)
    work = interrupted(lab)
    document = json.loads((work / "data" / "hosts" / "controller.json").read_text())
    moved = {**document, "host": {**document["host"], "cpu_model": "of another machine"}}
    store = Store(lab.results, work.name)
    with pytest.raises(LabError) as caught:
        Campaign.resume(replace(lab.around(), controller=lambda: moved), store, lab.scenario(4))
    assert caught.value.code == "hosts-changed"
    store.unlock()
    newer = {**document, "host": {**document["host"], "kernel": "7.0", "boot_id": "another"}}
    assert resume(lab, controller=lambda: newer).verdict_counts == {"pass": 4}


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


class KilledError(Exception):
    """As good as a SIGKILL: nothing that comes after it is done."""


def killed_between_the_last_renames(results: Path, seal_it: Callable[[], object]) -> Path:
    """The bundle that `seal_it` leaves when it dies before `latest` moves."""

    def dies(_results: Path, run_id: str) -> None:
        raise KilledError(run_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pqevidence.bundle.sealing.point_latest", dies)
        with pytest.raises(KilledError) as caught:
            seal_it()
    return results / str(caught.value)


def test_only_a_run_that_died_while_it_was_sealed_becomes_latest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newer sealed folder that was unpacked here is somebody else's."""
    lab = FakeLab(tmp_path)
    lab.outputs = replace(lab.outputs, seal=seal)
    lab.clock.sleep(1_770_000_000.0)
    bundle = killed_between_the_last_renames(
        lab.results, lambda: Campaign.begin(lab.around(), lab.scenario(1)).carry_out()
    )
    assert (bundle / "bagit.txt").is_file()
    assert not (lab.results / "latest").exists()
    foreign = shutil.copytree(bundle, lab.results / "29990101T000000Z-ffffff")
    assert main(["resume", "--out", str(lab.results)]) == 0
    assert f"{bundle.name}: 1 pass" in capsys.readouterr().out
    assert (lab.results / "latest").resolve() == bundle.resolve()
    assert list((lab.results / ".work").iterdir()) == []
    assert foreign.is_dir()
    assert main(["resume", "--out", str(lab.results)]) == 4
    assert "no run is in work" in capsys.readouterr().err
    assert (lab.results / "latest").resolve() == bundle.resolve()


def test_a_correction_that_died_while_it_was_sealed_becomes_latest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its run measured nothing: there are no verdicts in it to count."""
    sealed = make_sealed(tmp_path)
    argv = ["correct", str(sealed), "--out", str(tmp_path), "--remark", "--reason", "the fan was loud"]
    bundle = killed_between_the_last_renames(tmp_path, lambda: main(argv))
    capsys.readouterr()
    assert main(["resume", "--out", str(tmp_path)]) == 0
    assert f"{bundle.name}: sealed" in capsys.readouterr().out
    assert (tmp_path / "latest").resolve() == bundle.resolve()


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
