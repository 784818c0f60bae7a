"""What -e may name: the playbooks themselves are begun with right and with misspelt names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from role_kit import ROLES, ROOT, playbook, yaml_of

PLAYBOOKS = ("provision.yml", "run-scenario.yml", "collect.yml", "teardown.yml")
REFUSED = "Stop if -e names what nothing here has"
SIM = ("-i", "inventories/sim.ini")
OPTIONS = yaml_of(ROOT / "ansible/options.yml")


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_misspelt_option_stops_every_playbook_before_its_first_look(tmp_path: Path, name: str) -> None:
    played = playbook(tmp_path, name, *SIM, "-e", "senario=baseline")
    assert played.code != 0
    said = played.said(REFUSED)
    assert re.search(r"\bsenario\b.*\bscenario\b", said)
    assert said.endswith(".")
    assert said.count(". ") == 0, "one sentence"
    assert {task for _, task, _ in played.rows} == {REFUSED}


def options_file(folder: Path) -> str:
    (folder / "mine.yml").write_text("reps: 2\nsesion_s: 3\n")
    return f"@{folder / 'mine.yml'}"


@pytest.mark.parametrize(
    ("given", "unknown", "nearest"),
    [
        ('{"pqlab_pwer": "none", "reps": 2}', "pqlab_pwer", "pqlab_power"),
        ("@", "sesion_s", "session_s"),
        ("companion_pi_rebot=false", "companion_pi_rebot", "companion_pi_reboot"),
        ("ansible_usr=pi", "ansible_usr", "ansible_user"),
        ("qwertz=1", "qwertz", "docs/ANSIBLE.md"),
        # derived by group_vars, and so nobody's to set
        ("lab_windows=true", "lab_windows", "."),
    ],
)
def test_every_way_of_giving_one(tmp_path: Path, given: str, unknown: str, nearest: str) -> None:
    words = options_file(tmp_path) if given == "@" else given
    said = playbook(tmp_path, "collect.yml", *SIM, "--check", "-e", words).said(REFUSED)
    assert f" {unknown} (" in said
    assert nearest in said


def test_right_names_pass(tmp_path: Path) -> None:
    """Of a playbook, of the inventory, of a role, of Ansible, and one that the inventory itself uses."""
    inventory = tmp_path / "own.ini"
    inventory.write_text(
        (ROOT / "ansible/inventories/sim.ini").read_text() + "ansible_password={{ my_own_password }}\n"
    )
    given = {
        "scenario": "smoke",
        "pqlab_power": "none",
        "companion_pi_reboot": False,
        "ansible_user": "pi",
        "ansible_become_password": "x",
        "ansible_psrp_protocol": "https",
        "ansible_shell_type": "sh",
        "ansible_python_interpreter": "python3",
        "my_own_password": "x",
    }
    words = ("collect.yml", "-i", str(inventory), "--check", "-e")
    played = playbook(tmp_path, *words, json.dumps(given))
    assert played.said(REFUSED) == ""
    assert played.code == 0, played.failures or played.text[-2000:]
    given["my_other_word"] = "x"
    assert " my_other_word (" in playbook(tmp_path, *words, json.dumps(given)).said(REFUSED)


def test_the_list_of_names_is_whole() -> None:
    """Every option that playbooks and roles use is in it, and nothing else; docs/ANSIBLE.md has them all."""
    used: dict[str, set[str]] = {"playbook": set(), "inventory": set()}
    for file in sorted((ROOT / "ansible").rglob("*")):
        if file.suffix not in (".yml", ".j2", ".ini") or file.name == "options.yml":
            continue
        text = file.read_text(encoding="utf-8")
        used["inventory"] |= set(re.findall(r"\bpqlab_[a-z_]+\b", text)) - {"pqlab_"}
        used["playbook"] |= set(re.findall(r"\brun_scenario_[a-z_]+\b", text))
    campaign = (ROLES / "campaign/defaults/main.yml").read_text(encoding="utf-8")
    used["playbook"] |= set(re.findall(r"\{\{ (\w+) \| default\(", campaign))
    document = (ROOT / "docs/ANSIBLE.md").read_text(encoding="utf-8")
    for kind, names in used.items():
        assert set(OPTIONS[kind]) == names
        assert {name for name in names if not re.search(rf"\b{name}\b", document)} == set()
