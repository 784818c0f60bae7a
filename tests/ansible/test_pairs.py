"""Pairs of an inventory in the playbooks: refused before any host is looked at, each end with its own peer,
and a simulated campaign from preflight to one merged bundle.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from role_kit import ROLES, ROOT, Task, play, playbook
from test_campaign import SCRIPT, module_of
from test_operators import PLAYBOOKS, SHORT, asked, checkout

from played import read

__all__ = ["checkout"]
PAIRS = ("-i", "inventories/pairs-sim.ini")
LABS = ("-i", "inventories/pairs-lab.ini")
REFUSED = "Stop if the inventory's pairs of hosts cannot be"


@pytest.fixture
def whole(checkout: Path) -> Path:
    """A checkout with the module that knows the rules of pairs."""
    for name in ("base", "evidence", "conduct"):
        (checkout / name).mkdir(exist_ok=True)
        if name != "conduct":
            (checkout / name / "src").symlink_to(ROOT / name / "src")
    (checkout / "conduct/src/pqlab/doctor/windows_station.txt").unlink()
    (checkout / "conduct/src/pqlab/doctor").rmdir()
    (checkout / "conduct/src/pqlab").rmdir()
    (checkout / "conduct/src").rmdir()
    (checkout / "conduct/src").symlink_to(ROOT / "conduct/src")
    return checkout


@pytest.mark.parametrize("name", PLAYBOOKS)
@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (
            "[pair_2]\nsim-drone-2 pqlab_host_seed=2\nsim-gcs-2",
            "[pair_2]\nsim-drone-2",
            "pair_2 needs one host",
        ),
        ("[pair_3]", "[pair_4]", "[pair_4] would have share 4/3"),
        ("\nsim-gcs-2\n\n[pair_3]", "\nsim-gcs-1\n\n[pair_3]", "pair_1 and pair_2 share the host sim-gcs-1"),
    ],
)
def test_refused_by_every_playbook_before_its_first_look(
    tmp_path: Path, name: str, wrong: str, right: str, said: str
) -> None:
    text = (ROOT / "ansible/inventories/pairs-sim.ini").read_text()
    assert wrong in text
    (tmp_path / "rack.ini").write_text(text.replace(wrong, right))
    played = playbook(tmp_path, name, "-i", str(tmp_path / "rack.ini"), "-e", "scenario=smoke")
    assert played.code != 0
    told = played.said(REFUSED)
    assert told.startswith("Nothing was touched: ") and said in told
    assert told.endswith(".") and told.count(". ") == 0, "one sentence"
    assert {task for _, task, row in played.rows if not row.get("skipped")} == {REFUSED}, played.text[-2000:]


def test_every_end_has_the_peer_of_its_own_pair(tmp_path: Path) -> None:
    tasks: list[Task] = [
        {"ansible.builtin.include_vars": {"file": str(ROOT / "ansible/group_vars/all.yml")}},
        {"ansible.builtin.include_vars": {"file": str(ROLES / "tunnel_endpoint/vars/main.yml")}},
        {
            "name": "Peer",
            "ansible.builtin.debug": {"msg": "{{ inventory_hostname }} {{ tunnel_endpoint_other }}"},
        },
        {"name": "Labs", "ansible.builtin.debug": {"msg": "{{ lab_numbers | join(' ') }}"}, "run_once": True},
    ]
    for task in tasks[2:]:
        task["vars"] = {"tunnel_endpoint_role": "{{ pqlab_role | default('drone') }}"}
    done = play(
        tmp_path,
        [{**task, "when": "pqlab_role is defined"} for task in tasks],
        {},
        options=("-i", str(ROOT / "ansible/inventories/pairs-lab.ini")),
    )
    played = read(done.returncode, done.stdout, done.stderr, 0.0)
    assert played.code == 0, played.failures or played.text[-2000:]
    ends = ("lab1-drone lab1-gcs", "lab2-drone lab2-gcs", "lab1-gcs lab1-drone", "lab2-gcs lab2-drone")
    assert sorted(played.said("Peer").split("\n"))[-4:] == sorted(ends)
    assert "1 2" in played.said("Labs")


@pytest.mark.timeout(400)
def test_a_simulated_campaign_on_three_pairs(whole: Path) -> None:
    words = [word.replace("reps=1", "reps=3") for word in SHORT]
    played = playbook(whole.parent, "run-scenario.yml", *PAIRS, *words, tree=whole, timeout_s=380)
    assert played.code == 0, played.failures or played.text[-3000:]
    assert '{"pass": 3}' in played.said("Say where the bundle is")
    parts = json.loads((whole / "results/latest/data/merge.json").read_text())["parts"]
    assert [part["pair"] for part in parts] == ["pair_1", "pair_2", "pair_3"]


@pytest.mark.timeout(300)
def test_a_check_of_two_labs_says_both_and_brings_nothing_up(whole: Path) -> None:
    (whole / "compose").mkdir()
    script = whole / "compose/lab.sh"
    told = shlex.quote(str(whole.parent / "asked"))
    script.write_text(f'#!/bin/sh\necho "lab.sh $* $LAB" >>{told}\nexit 1\n')
    script.chmod(0o755)
    words = [word.replace("reps=1", "reps=2") for word in SHORT]
    played = playbook(whole.parent, "run-scenario.yml", *LABS, *words, "--check", tree=whole, timeout_s=280)
    assert played.code == 0, played.failures or played.text[-3000:]
    said = played.said("Say what would be run")
    assert "bring the container labs up (make lab-up LAB=1, make lab-up LAB=2), then run on localhost" in said
    assert (
        "share 1/2 on pair pair_1: repetition 1 of 2" in said
        and "time: side by side unknown, between" in said
    )
    assert [line for line in asked(whole) if line.startswith("lab.sh is-up")] == [
        "lab.sh is-up 1",
        "lab.sh is-up 2",
    ]
    assert not [line for line in asked(whole) if line.startswith("lab.sh up")]


def test_a_look_tells_a_line_a_pair() -> None:
    row = {"done": 3, "total": 9, "verdict_counts": {"pass": 3}, "eta_s": 60.0, "state": "running"}
    waiting = {"pair": "pair_2", "state": "not begun", "done": 0, "total": None, "verdict_counts": {}}
    status = {
        "updated_utc": "2026-03-01T12:00:00Z",
        "pairs": [{"pair": "pair_1", **row}, waiting],
        "total": None,
    }
    assert module_of(SCRIPT).sentence(status, 1_772_366_405.0).splitlines() == [
        "pair_1: running, 3 of 9 cells (3 pass), about 00:55 left",
        "pair_2: not begun, no cell has begun yet",
    ]
