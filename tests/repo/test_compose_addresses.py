"""Addresses in compose files are fixed: of two services with the same one, the second would not start."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "compose"


class Loader(yaml.SafeLoader):
    """Compose's own tags (`!reset`, `!override`) say how files are merged, not what is in them."""


def _untagged(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


Loader.add_multi_constructor("!", _untagged)
#: as lab 1 has them (compose/lab.sh)
FILES = {
    path.name: yaml.load(path.read_text().replace("${LAB_NET:-}", ""), Loader)
    for path in sorted(FOLDER.glob("*.yml"))
}


def holders(files: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """(network, address) → the services that have it in any file; an overlay names the service it changes."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for document in files.values():
        for service, told in document["services"].items():
            networks = told.get("networks") or {}
            for network, settings in networks.items() if isinstance(networks, dict) else ():
                if settings and "ipv4_address" in settings:
                    found[network, settings["ipv4_address"]].add(service)
    return found


def test_no_two_services_share_an_address() -> None:
    found = holders(FILES)
    assert len(found) >= 15
    assert {"grafana", "attacker"} <= {service for services in found.values() for service in services}
    assert {place: services for place, services in found.items() if len(services) > 1} == {}


def test_each_address_is_of_its_network() -> None:
    networks = FILES["lab.yml"]["networks"]
    for network, address in holders(FILES):
        subnet = ipaddress.ip_network(networks[network]["ipam"]["config"][0]["subnet"])
        assert ipaddress.ip_address(address) in subnet, (network, address)
        # the engine gives the first one to the bridge
        assert ipaddress.ip_address(address) != subnet[1], (network, address)


def test_a_shared_address_is_seen() -> None:
    twice = {"services": {"other": {"networks": {"mgmt": {"ipv4_address": "198.18.4.60"}}}}}
    assert holders({**FILES, "other.yml": twice})["mgmt", "198.18.4.60"] == {"attacker", "other"}
