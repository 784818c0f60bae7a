"""Agents that a dead controller left in the middle of a cell."""

from __future__ import annotations

from pathlib import Path

from fake_agent import FakeAgent, FakeClock, FakeConnection

from pqlab.campaign.heal import heal
from pqlab.inventory import AgentAddress, Inventory
from pqtunnel.rpc import WrongKeyError


def pair() -> tuple[FakeClock, dict[str, FakeAgent], Inventory]:
    clock = FakeClock()
    agents = {role: FakeAgent(role, clock) for role in ("drone", "gcs")}
    addresses = {role: AgentAddress(role, role, "192.0.2.1", 48080) for role in agents}
    return clock, agents, Inventory(Path("hosts.ini"), addresses, "lab", Path("keys"), None, "pqlab", None)


def test_an_idle_pair_is_left_alone() -> None:
    clock, agents, inventory = pair()
    rows = heal(inventory, lambda address: FakeConnection(agents[address.role]), clock, 5.0)
    assert [(row.role, row.ok, row.did) for row in rows] == [
        ("drone", True, "was idle"),
        ("gcs", True, "was idle"),
    ]
    assert agents["drone"].methods() == ["counters"]


def test_a_held_cell_is_stopped_and_named() -> None:
    clock, agents, inventory = pair()
    agents["gcs"].do_prepare("abc")
    rows = heal(inventory, lambda address: FakeConnection(agents[address.role]), clock, 5.0)
    assert agents["gcs"].state == "idle"
    assert rows[1].ok
    assert "abc" in rows[1].did


def test_an_agent_that_comes_back_is_waited_for() -> None:
    clock, agents, inventory = pair()
    drone = agents["drone"]
    drone.down = True

    def back(agent: FakeAgent, _method: str, _params: object) -> None:
        agent.down = len(agent.calls) < 4

    drone.hooks.append(back)
    rows = heal(inventory, lambda address: FakeConnection(agents[address.role]), clock, 30.0)
    assert rows[0].ok
    assert len(drone.calls) == 4


def test_one_that_stays_away_does_not_hide_the_other() -> None:
    clock, agents, inventory = pair()
    agents["drone"].down = True
    rows = heal(inventory, lambda address: FakeConnection(agents[address.role]), clock, 3.0)
    assert not rows[0].ok
    assert rows[0].hint == "make lab-up"
    assert rows[1].ok


def test_a_wrong_key_is_not_tried_again() -> None:
    clock, agents, inventory = pair()

    def refuse(_agent: FakeAgent, _method: str, _params: object) -> None:
        raise WrongKeyError("the agent does not know this controller", hint="make keys")

    agents["drone"].hooks.append(refuse)
    rows = heal(inventory, lambda address: FakeConnection(agents[address.role]), clock, 30.0)
    assert not rows[0].ok
    assert len(agents["drone"].calls) == 1
