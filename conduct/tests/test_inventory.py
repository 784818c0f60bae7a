"""What pqlab reads from an Ansible inventory, and how it refuses what it cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest

from pqevidence.errors import EXIT_USAGE, UsageError
from pqevidence.paths import project_root
from pqlab.inventory import load_inventory

HOSTS = """\
[drone]
pi pqlab_role=drone pqlab_agent_host=192.0.2.10
[gcs]
station pqlab_role=gcs ansible_host=192.0.2.20 pqlab_agent_port=48080
[lab:children]
drone
gcs
[lab:vars]
pqlab_ring=hardware
pqlab_keys=elsewhere
"""


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "hosts.ini"
    file.write_text(text)
    return str(file)


def test_the_container_lab() -> None:
    lab = load_inventory()
    assert (lab.agents["drone"].host, lab.agents["drone"].port) == ("127.0.0.1", 48081)
    assert (lab.agents["gcs"].host, lab.agents["gcs"].port) == ("127.0.0.1", 48080)
    assert lab.ring == "lab"
    assert lab.controller_keys == project_root() / "keys" / "controller"
    assert lab.influx_url == "http://127.0.0.1:8086"


def test_other_hosts(tmp_path: Path) -> None:
    lab = load_inventory(write(tmp_path, HOSTS))
    assert (lab.agents["drone"].host, lab.agents["drone"].port) == ("192.0.2.10", 48080)
    assert lab.agents["gcs"].host == "192.0.2.20"
    assert lab.ring == "hardware"
    assert lab.keys == project_root() / "elsewhere"
    assert lab.influx_url is None
    assert load_inventory(write(tmp_path, HOSTS), keys=str(tmp_path)).keys == tmp_path


@pytest.mark.parametrize(("mark", "end"), [("", "\r\n"), ("\ufeff", "\n"), ("\ufeff", "\r\n")])
def test_a_file_that_an_editor_of_windows_wrote(tmp_path: Path, mark: str, end: str) -> None:
    file = tmp_path / "hosts.ini"
    file.write_bytes((mark + HOSTS.replace("\n", end)).encode())
    lab = load_inventory(str(file))
    assert (lab.agents["drone"].host, lab.ring) == ("192.0.2.10", "hardware")
    assert lab.keys == project_root() / "elsewhere"


@pytest.mark.parametrize(
    "line", ["station pqlab_platform=windows/amd64", "station\n[gcs:vars]\npqlab_platform=windows/amd64"]
)
def test_a_windows_station_is_known(tmp_path: Path, line: str) -> None:
    assert load_inventory(write(tmp_path, f"[drone]\npi\n[gcs]\n{line}\n")).windows_station
    assert not load_inventory(write(tmp_path, HOSTS)).windows_station


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gcs]\na\n", "no host in group [drone]"),
        ("[drone]\na\nb\n[gcs]\nc\n", "2 hosts in group [drone]"),
        ("[drone]\na stray\n[gcs]\nc\n", "hosts.ini:2"),
        ("[drone]\na pqlab_agent_port=99999\n[gcs]\nc\n", "pqlab_agent_port=99999"),
        ("[drone\na\n", "hosts.ini:1"),
        ("[drone:things]\na\n", "hosts.ini:1"),
        ("[lab:vars]\nstray\n", "hosts.ini:2"),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_inventory(write(tmp_path, text))
    assert said in caught.value.what
    assert caught.value.exit_code == EXIT_USAGE


def test_the_delivered_inventory_names_its_placeholder() -> None:
    with pytest.raises(UsageError, match="REPLACE_WITH_") as caught:
        load_inventory(str(project_root() / "inventory.ini"))
    assert "lab.ini" in caught.value.hint


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read inventory"):
        load_inventory(str(tmp_path / "none.ini"))
