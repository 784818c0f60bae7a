"""Tasks of the roles, read or run on this machine with a host that is a folder or a few facts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from played import Played, read
from tools import ended

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "ansible" / "roles"
Task = dict[str, Any]


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(role: str, name: str) -> dict[str, Task]:
    """The tasks of a file of a role, by name."""
    return {task["name"]: task for task in yaml_of(ROLES / role / "tasks" / name)}


def play(
    folder: Path,
    tasks: list[Task],
    variables: dict[str, Any],
    *,
    roles: tuple[str, ...] = (),
    options: tuple[str, ...] = ("-i", "localhost,"),
    config: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run tasks on this machine, beside the defaults and variables of these roles; JSON is printed. config:
    an ansible.cfg, where the tests' own is not meant."""
    names = [
        str(path)
        for role in roles
        for path in (ROLES / role / "defaults/main.yml", ROLES / role / "vars/main.yml")
        if path.exists()
    ]
    file = folder / "play.yml"
    file.write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars_files": names, "tasks": tasks}])
    )
    own = {"LOCAL_TEMP": "tmp", "REMOTE_TEMP": "tmp", "HOME": "home"}
    environment = {f"ANSIBLE_{name}": str(folder / value) for name, value in own.items()}
    environment |= {"ANSIBLE_ROLES_PATH": str(ROLES), "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
    if config is not None:
        environment["ANSIBLE_CONFIG"] = str(config)
    return ended(
        ["ansible-playbook", *options, "-c", "local", "-e", json.dumps(variables), str(file)],
        100,
        cwd=folder,
        env={**os.environ, **environment},
    )


def playbook(folder: Path, name: str, *words: str, tree: Path = ROOT, timeout_s: float = 100) -> Played:
    """A delivered playbook, begun in ansible/ as a user does; what Ansible itself writes is in `folder`."""
    own = {"LOCAL_TEMP": "tmp", "REMOTE_TEMP": "tmp", "HOME": "home"}
    environment = {f"ANSIBLE_{key}": str(folder / value) for key, value in own.items()}
    environment["ANSIBLE_CONFIG"] = str(tree / "ansible/ansible.cfg")
    environment["ANSIBLE_STDOUT_CALLBACK"] = "ansible.posix.json"
    done = ended(
        ["ansible-playbook", name, *words],
        timeout_s,
        cwd=tree / "ansible",
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    return read(done.returncode, done.stdout, done.stderr, 0.0)
