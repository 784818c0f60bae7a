"""Inventories and playbooks before any host is touched."""

from __future__ import annotations

import json

import pytest

from played import ANSIBLE, ROOT, command, play

from .conftest import LAB, run

PLAYBOOKS = ("provision.yml", "run-scenario.yml", "collect.yml", "teardown.yml")


def test_the_delivered_inventory_lists() -> None:
    done = run(str(ROOT / ".venv-ansible/bin/ansible-inventory"), "-i", str(ROOT / "inventory.ini"), "--list")
    listed = json.loads(done.stdout)
    assert listed["drone"]["hosts"] == ["pi"]
    assert set(listed["lab"]["children"]) == {"controller", "drone", "gcs"}


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_placeholders_stop_with_one_sentence(playbook: str) -> None:
    played = play(playbook, "-e", "scenario=smoke")
    assert played.code != 0
    said = played.said("Stop if the inventory still holds placeholders")
    assert "inventory.ini still holds placeholders" in said
    assert "REPLACE_WITH_PI_ADDRESS" in said
    assert said.rstrip().endswith("again.")
    assert said.count(". ") == 0
    # only what looks at words and files of this machine went before it
    assert {name for _, name, _ in played.rows} == {
        "Stop if -e names what nothing here has",
        "Stop if the inventory begins with a byte order mark",
        "Stop if the inventory still holds placeholders",
    }


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_syntax(playbook: str) -> None:
    done = run(*command(playbook, *LAB, "--syntax-check"), cwd=ANSIBLE)
    assert playbook in done.stdout


def test_every_role_has_its_argument_specs() -> None:
    for role in sorted((ANSIBLE / "roles").iterdir()):
        assert (role / "meta" / "argument_specs.yml").is_file(), role.name
        assert (role / "defaults" / "main.yml").is_file(), role.name
