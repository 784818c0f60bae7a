"""Roles of Linux hosts as far as they can be known without a host: what they render, choose and refuse.

Their own task files run on localhost, with a host that is a folder or a few facts.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from pqtelemetry.segments import MOST_BYTES

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "ansible" / "roles"
Task = dict[str, Any]


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(role: str, name: str) -> dict[str, Task]:
    """The tasks of a file of a role, by name."""
    return {task["name"]: task for task in yaml_of(ROLES / role / "tasks" / name)}


def play(
    folder: Path, tasks: list[Task], variables: dict[str, Any], *, roles: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run tasks on localhost beside the defaults and variables of these roles."""
    names = [
        str(path)
        for role in roles
        for path in (ROLES / role / "defaults/main.yml", ROLES / role / "vars/main.yml")
        if path.exists()
    ]
    file = folder / "play.yml"
    file.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars_files": names, "tasks": tasks}])
    )
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), str(file)],
        capture_output=True, text=True, timeout=100, check=False, cwd=folder,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
             "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_ROLES_PATH": str(ROLES)},
    )  # fmt: skip


def endpoint_unit(folder: Path, device_tree: Path, kind: str = "image") -> str:
    """The drone's unit as role tunnel_endpoint has role service_unit write it, on a host with that device tree."""
    service = tasks_of("tunnel_endpoint", "40-service.yml")
    unit = folder / "unit"
    template = str(ROLES / "service_unit/templates" / f"{kind}.service.j2")
    given = {
        name: value for name, value in service["The agent"]["vars"].items() if name == "service_unit_board"
    }
    assert given
    variables = {
        "tunnel_endpoint_device_tree": str(device_tree), "tunnel_endpoint_kind": kind, "pqlab_role": "drone",
        "service_unit_kind": kind, "service_unit_name": "pqtunnel-drone", "service_unit_artefact": "tunnel",
        "service_unit_group_lines": {"results": []}, "service_unit_tree": "/opt/pqlab/tunnel-x",
    }  # fmt: skip
    render = {"ansible.builtin.template": {"src": template, "dest": str(unit)}, "vars": given}
    tasks = [service["Look which board this is"], render]
    done = play(folder, tasks, variables, roles=("service_unit", "tunnel_endpoint"))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return unit.read_text()


def test_a_container_is_shown_its_board(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "system").mkdir(parents=True)
    (tree / "model").write_text("Raspberry Pi 5\0")
    (tree / "system/linux,revision").write_bytes(bytes.fromhex("00c04170"))
    shown = [line.split()[1] for line in endpoint_unit(tmp_path, tree).splitlines() if "/device-tree/" in line]
    assert shown == [
        f"/sys/firmware/devicetree/base/{name}:/host/device-tree/{name}:ro"
        for name in ("model", "system/linux,revision")
    ]


def test_where_no_device_tree_is_nothing_is_bound(tmp_path: Path) -> None:
    """The engine would make what is not there, or the unit would fail."""
    unit = endpoint_unit(tmp_path, tmp_path / "none")
    assert "device" not in unit
    assert unit.count("ExecStart=") == 1


def test_kind_archive_sees_the_device_tree_as_it_is(tmp_path: Path) -> None:
    assert "/host/device-tree" not in endpoint_unit(tmp_path, ROOT, "archive")


def test_the_sampler_has_room_for_its_bound_in_a_container(tmp_path: Path) -> None:
    """A file of it has a quarter of its disk at most; the same room as in the container lab."""
    found = re.findall(r"--tmpfs /run:\S*size=(\d+)m", endpoint_unit(tmp_path, tmp_path / "none"))
    assert len(found) == 1
    assert int(found[0]) * 1024 * 1024 // 4 >= MOST_BYTES
    compose = (ROOT / "compose/lab.yml").read_text()
    assert f'"/run:mode=1777,size={found[0]}m' in compose
