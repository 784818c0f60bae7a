"""Several labs on one machine: what belongs to one is no other's, and lab 1 is what it always was."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from pqevidence.errors import EXIT_USAGE, UsageError
from pqlab.campaign.attack import AttackControl
from pqlab.campaign.link import LinkControl
from pqlab.cli.main import main
from pqlab.inventory import load_inventory
from pqlab.lab_number import LabNumber, lab_number, of_this_lab
from tools import ended

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "compose" / "lab.yml"
#: as compose/lab.sh sets them
SET = {1: ("", "0"), 2: ("2", "1"), 3: ("3", "2"), 4: ("4", "3")}


def composed(number: int) -> dict[str, Any]:
    """compose/lab.yml as that lab has it."""
    net, port = SET[number]
    text = LAB.read_text().replace("${LAB_NET:-}", net).replace("${LAB_PORT:-0}", port)
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def published(document: dict[str, Any]) -> list[int]:
    services = document["services"].values()
    return sorted(int(port.split(":")[1]) for service in services for port in service.get("ports", []))


def networks(document: dict[str, Any]) -> dict[str, str]:
    return {name: net["ipam"]["config"][0]["subnet"] for name, net in document["networks"].items()}


def test_lab_1_is_what_it_always_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB", raising=False)
    document = composed(1)
    assert document["name"] == lab_number().project == "pqlab"
    assert published(document) == [8086, 48080, 48081, 48090, 48092]
    air = {"onboard": "198.18.1.0/24", "air": "198.18.2.0/24", "ground": "198.18.3.0/24"}
    assert networks(document) == {**air, "mgmt": "198.18.4.0/24"}
    inventory = load_inventory()
    assert {role: agent.port for role, agent in inventory.agents.items()} == {"drone": 48081, "gcs": 48080}
    assert (inventory.influx_url, inventory.compose_project) == ("http://127.0.0.1:8086", "pqlab")
    assert (LinkControl().address[1], AttackControl().address[1]) == (48090, 48092)
    assert of_this_lab("make lab-up, then ./compose/lab.sh up") == "make lab-up, then ./compose/lab.sh up"


def test_no_two_labs_share_a_name_a_network_or_a_port() -> None:
    for one, other in itertools.combinations(map(composed, SET), 2):
        assert one["name"] != other["name"]
        assert not set(published(one)) & set(published(other))
        assert not set(networks(one).values()) & set(networks(other).values())
        bridges = [
            {net["driver_opts"]["com.docker.network.bridge.name"] for net in document["networks"].values()}
            for document in (one, other)
        ]
        assert not bridges[0] & bridges[1]
        assert all(len(name) <= 15 for name in bridges[0] | bridges[1]), "IFNAMSIZ is 16, with its end"


@pytest.mark.parametrize("number", SET)
def test_every_address_of_a_lab_is_within_its_own_networks(number: int) -> None:
    document = composed(number)
    prefixes = {net.removesuffix("0/24") for net in networks(document).values()}
    text = json.dumps(document["services"])
    found = {"198.18." + part.split(".")[0] + "." for part in text.split("198.18.")[1:]}
    assert found == prefixes


@pytest.mark.parametrize("number", SET)
def test_the_controller_looks_where_compose_publishes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB", str(number))
    document, inventory = composed(number), load_inventory()
    assert inventory.compose_project == document["name"]
    agents = [agent.port for agent in inventory.agents.values()]
    others = [LinkControl().address[1], AttackControl().address[1]]
    assert inventory.influx_url is not None
    view = int(inventory.influx_url.rpartition(":")[2])
    assert sorted([*agents, *others, view]) == published(document)


def test_other_hosts_have_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "ansible/inventories/lab.ini").read_text().replace("pqlab_compose_project=pqlab", "")
    (tmp_path / "hosts.ini").write_text(text)
    monkeypatch.setenv("LAB", "3")
    assert load_inventory(str(tmp_path / "hosts.ini")).agents["gcs"].port == 48080


@pytest.mark.parametrize("text", ["0", "5", "x", "02", "-1", "2 "])
def test_a_number_that_is_none_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB", text)
    with pytest.raises(UsageError):
        lab_number()
    assert main(["fly"]) == EXIT_USAGE
    assert f"LAB={text} is no lab" in capsys.readouterr().err
    done = ended([str(ROOT / "compose" / "lab.sh"), "status"], 60, env={**os.environ, "LAB": text})
    assert done.returncode == EXIT_USAGE and f"LAB={text} is no lab" in done.stderr


def test_the_next_command_is_that_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB", "2")
    assert of_this_lab("make lab-down lab-up") == "make lab-down LAB=2 lab-up"
    assert of_this_lab("./compose/lab.sh profile link") == "LAB=2 ./compose/lab.sh profile link"
    assert LabNumber(2).port(14550) == 14650
