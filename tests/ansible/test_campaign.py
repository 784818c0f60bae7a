"""The process that holds a campaign: it outlives its starter, is the only one, is waited for, and heals."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from role_kit import ROLES, ROOT, play, yaml_of

from waiting import LIMIT_S, wait_for

SCRIPT = ROLES / "campaign/files/campaign.py"


def ask(*words: str, cwd: Path) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def begin(folder: Path, script: str, heal: str | None = None) -> dict[str, Any]:
    healing = [] if heal is None else ["--heal", json.dumps(["sh", "-c", heal])]
    return ask("begin", str(folder / "state"), *healing, "--", "sh", "-c", script, cwd=folder)


def body_pid(folder: Path) -> int:
    return int(json.loads((folder / "state" / "begun.json").read_text())["body_pid"])


def test_nothing_was_begun(tmp_path: Path) -> None:
    assert ask("state", str(tmp_path / "state"), cwd=tmp_path) == {"state": "none"}


def test_the_starter_goes_the_campaign_stays(tmp_path: Path) -> None:
    last = json.dumps({"bundle": "results/x", "verdict_counts": {"pass": 1}})
    begun = begin(tmp_path, f"sleep 1; echo progress >&2; echo '{last}'")
    assert begun["state"] == "running"
    assert "setsid" in begun["how"] or "systemd" in begun["how"]
    ended = ask("wait", str(tmp_path / "state"), str(LIMIT_S), cwd=tmp_path)
    assert (ended["state"], ended["code"]) == ("ended", 0)
    assert ended["result"]["bundle"] == "results/x"
    assert ended["told"] == ["progress"]


def test_a_second_beginning_attaches(tmp_path: Path) -> None:
    begin(tmp_path, "sleep 2; exit 3")
    again = begin(tmp_path, "exit 0")
    assert again["state"] == "running"
    assert again["command"][-1] == "sleep 2; exit 3"
    assert ask("wait", str(tmp_path / "state"), str(LIMIT_S), cwd=tmp_path)["code"] == 3


def test_a_wait_is_bounded(tmp_path: Path) -> None:
    begin(tmp_path, "sleep 300")
    assert ask("wait", str(tmp_path / "state"), "0.3", cwd=tmp_path)["state"] == "running"
    assert ask("stop", str(tmp_path / "state"), cwd=tmp_path)["state"] == "ended"


def test_the_errors_document_is_told(tmp_path: Path) -> None:
    begin(tmp_path, 'echo \'{"error": {"what": "no agent", "why": "away", "hint": "make lab-up"}}\'; exit 4')
    ended = ask("wait", str(tmp_path / "state"), str(LIMIT_S), cwd=tmp_path)
    assert (ended["code"], ended["result"]) == (4, None)
    assert ended["error"]["hint"] == "make lab-up"


def test_it_heals_after_failure_and_after_stop(tmp_path: Path) -> None:
    begin(tmp_path, "exit 1", heal="echo idle; touch healed")
    ended = ask("wait", str(tmp_path / "state"), str(LIMIT_S), cwd=tmp_path)
    assert ended["healed"]["told"] == "idle"
    assert (tmp_path / "healed").exists()
    (tmp_path / "healed").unlink()
    begin(tmp_path, "sleep 300", heal="touch healed")
    stopped = ask("stop", str(tmp_path / "state"), cwd=tmp_path)
    assert stopped["code"] != 0
    assert (tmp_path / "healed").exists()


def test_a_killed_process_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    begin(tmp_path, "exec sleep 300")
    os.kill(body_pid(tmp_path), signal.SIGKILL)
    wait_for(lambda: ask("state", str(tmp_path / "state"), cwd=tmp_path)["state"] != "running")
    assert ask("state", str(tmp_path / "state"), cwd=tmp_path)["state"] == "killed"


def test_what_systemd_calls_afterwards_heals_only_once(tmp_path: Path) -> None:
    begin(tmp_path, "exec sleep 300", heal="echo once >>healed")
    os.kill(body_pid(tmp_path), signal.SIGKILL)
    for _ in range(2):
        words = [sys.executable, str(SCRIPT), "after", str(tmp_path / "state")]
        subprocess.run(words, cwd=tmp_path, check=True)
    assert (tmp_path / "healed").read_text() == "once\n"


def test_progress_is_that_of_the_process_that_writes_it(tmp_path: Path) -> None:
    for run in ("1-old", "2-new"):
        (tmp_path / "results" / ".work" / run).mkdir(parents=True)
    (tmp_path / "results" / ".work" / "1-old" / "status.json").write_text('{"pid": 1, "done": 9}')
    begin(tmp_path, 'printf \'{"pid": %d, "done": 2}\' $$ >results/.work/2-new/status.json; exec sleep 300')
    wait_for(lambda: bool(ask("state", str(tmp_path / "state"), cwd=tmp_path)["status"]))
    told = ask("state", str(tmp_path / "state"), cwd=tmp_path)
    assert told["status"]["done"] == 2 and told["said"] == "no cell has begun yet"
    ask("stop", str(tmp_path / "state"), cwd=tmp_path)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "0 of 15 cells"),
        ({"eta_s": 620.0}, "0 of 15 cells, about 10:15 left"),
        ({"eta_s": 3.0}, "0 of 15 cells, about 00:00 left"),
        ({"eta_s": 7205.0}, "0 of 15 cells, about 2:00:00 left"),
        ({"eta_s": 60.0, "updated_utc": "sometime"}, "0 of 15 cells, about 01:00 left"),
        (
            {"done": 3, "verdict_counts": {"fail": 1, "pass": 2},
             "current": {"suite_id": "cs-x", "condition": "rekey", "repetition": 2}},
            "3 of 15 cells (1 fail, 2 pass); now cs-x rekey, repetition 2",
        ),
    ],
)  # fmt: skip
def test_it_says_cells_done_and_time_left(more: dict[str, Any], said: str) -> None:
    module = module_of(SCRIPT)
    status = {"done": 0, "total": 15, "updated_utc": "2026-03-01T12:00:00Z", **more}
    assert module.sentence(status, 1_772_366_405.0) == said


def test_a_playbook_that_waits_says_how_far_the_campaign_is(tmp_path: Path) -> None:
    """By a task that is asked again, as the role's own is."""
    (tmp_path / "results/.work/1").mkdir(parents=True)
    status = '{"pid": %d, "done": 2, "total": 9, "verdict_counts": {"pass": 2}}'
    script = f"printf '{status}' $$ >results/.work/1/status.json; exec sleep 60"
    begin(tmp_path, script)
    waiting = yaml_of(ROLES / "campaign/tasks/wait.yml")[:1]
    waiting[0] |= {"retries": 3, "failed_when": False}
    own = {"lab_campaign": str(SCRIPT), "lab_state": str(tmp_path / "state"), "campaign_poll_s": 1}
    told = play(tmp_path, waiting, own, config=ROOT / "ansible/ansible.cfg")
    ask("stop", str(tmp_path / "state"), cwd=tmp_path)
    assert told.stderr.count("campaign: 2 of 9 cells (2 pass)") >= 2, told.stderr
    json.loads(told.stdout)


@pytest.mark.parametrize("printed", [None, "", "ok", "[1]", '{"said": null}', '{"said": 3}'])
def test_what_another_task_prints_is_no_progress(printed: str | None) -> None:
    assert module_of(ROOT / "ansible/callback_plugins/campaign_progress.py").sentence(printed) is None


def module_of(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
