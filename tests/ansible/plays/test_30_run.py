"""The same engine by playbook: a whole scenario, left alone and found again, and the lab taken down."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from busy import BUSY_OK, amiss, disturbed
from played import ROOT, Played, begun, play

from .conftest import CALM, LAB, campaign, run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("lab")]

#: of five suites twice: the middle of it lasts long enough to be left and found again
WHOLE = ("-e", "scenario=smoke", "-e", "reps=2", *CALM)
CELLS = 10


def latest() -> Path:
    return (ROOT / "results" / "latest").resolve()


def shape(value: Any) -> Any:
    """The keys of a document, whatever its values are; what a busy machine does to a cell is a value."""
    if isinstance(value, dict):
        return {key: None if key == "verdict_findings" else shape(one) for key, one in sorted(value.items())}
    return None


def disturbed_cells(bundle: Path) -> int:
    return sum(disturbed(record) for record in records(bundle))


def records(bundle: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((bundle / "data/cells").glob("*/record.json"))]


@pytest.fixture(scope="module")
def smoke() -> Played:
    """Begun, left by Ctrl-C in the middle, attached to by the same command again."""
    first = begun("run-scenario.yml", *LAB, *WHOLE)
    deadline = time.monotonic() + 180
    while not (campaign().get("status") or {}).get("done"):
        assert time.monotonic() < deadline, campaign()
        assert first.poll() is None, campaign()
        time.sleep(1)
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=30)
    assert first.returncode != 0
    left = campaign()
    assert left["state"] == "running", left
    second = play("run-scenario.yml", *LAB, *WHOLE, timeout_s=600)
    # Ansible itself works on the machine that is measured: what it disturbs is invalid, nothing else may be
    assert amiss(latest()) == {}, second.failures or second.text[-3000:]
    assert second.code == 0 or disturbed_cells(latest()), second.failures or second.text[-3000:]
    assert "attaching to it" in second.said("Say that a campaign runs already")
    assert "Begin the campaign" not in {name for _, name, result in second.rows if not result.get("skipped")}
    return second


def test_it_ends_with_a_bundle_that_verifies(smoke: Played) -> None:
    if not disturbed_cells(latest()):
        assert f'{{"pass": {CELLS}}}' in smoke.said("Say where the bundle is")
    assert len(records(latest())) == CELLS
    assert (latest() / "data/report.html").is_file()
    assert run("./pqlab", "verify", str(latest())).returncode == 0


def test_healing_was_done_and_told(smoke: Played) -> None:
    assert "drone: was idle" in smoke.said("Say what healing did")
    healed = campaign()["healed"]
    assert healed["code"] == 0
    assert "[x] gcs: was idle" in healed["told"]


def test_the_bundle_is_the_one_pqlab_run_makes(smoke: Played) -> None:
    """Schema and verdict keys of both ways, field by field."""
    by_playbook = latest()
    short = ("--suites", "cs-mlkem768-aesgcm-mldsa65", "--session-s", "3", "--reps", "1")
    done = run("./pqlab", "run", "smoke", *short, *BUSY_OK, check=False)
    by_make = ROOT / Path(done.stdout.rstrip().splitlines()[-1]).parents[1]
    assert amiss(by_make) == {}, done.stdout[-3000:]
    assert by_make != by_playbook
    one = next(r for r in records(by_playbook) if r["suite_id"] == "cs-mlkem768-aesgcm-mldsa65")
    other = records(by_make)[0]
    assert shape(one) == shape(other)
    runs = [shape(json.loads((bundle / "data/run.json").read_text())) for bundle in (by_playbook, by_make)]
    assert runs[0].keys() == runs[1].keys()
    # another length of session is named a deviation; apart from that both are the same scenario
    assert run("./pqlab", "compare", str(by_playbook), str(by_make), check=False).returncode in (0, 3)


def test_teardown_takes_the_lab_down_and_says_so() -> None:
    played = play("teardown.yml", *LAB)
    assert played.code == 0, played.failures
    assert "Take the container labs down" in " ".join(played.changed)
    assert campaign() == {"state": "none"}
    assert run("docker", "ps", "-q", "--filter", "label=com.docker.compose.project=pqlab").stdout == ""
