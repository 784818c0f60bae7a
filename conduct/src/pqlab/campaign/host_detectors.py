"""Detectors of a drone that Ansible provisioned: asleep on its host, moved through the agent beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pqbase.documents import Json
from pqevidence.errors import LabError
from pqlab.campaign.agents import Agent, AgentFailure, Connect
from pqlab.campaign.detectors import compose_detectors
from pqlab.campaign.residents import ResidentDriver
from pqlab.inventory import Inventory

METHOD: Final = "detector"
#: the agent's word for a detector that does not run; this side's for an agent that does not
GONE: Final = "no_detector"
UNREACHABLE: Final = "agent-unreachable"
#: signals and two small files; a slow board reads them within this
_ANSWER_S: Final = 10.0


class HostDetector:
    """One detector. connect: makes the connection to its agent, when it is first needed."""

    def __init__(self, name: str, connect: Callable[[], Agent]) -> None:
        self._name = name
        self._connect = connect
        self._agent: Agent | None = None

    def start(self) -> None:
        """It runs already, asleep; here it proves that it can be woken."""
        self._ask("wake")

    def freeze(self) -> None:
        """Stands still, confirmed: it uses no CPU until it is woken."""
        self._ask("sleep")

    def thaw(self) -> None:
        """Goes on."""
        self._ask("wake")

    def forget(self) -> None:
        """Its history is empty from the next window on."""
        self._ask("forget")

    def mark(self) -> None:
        """What it sees from now to the end of this cell is not carried into the next."""
        self._ask("mark")

    def stop(self) -> None:
        """Asleep again, and this connection closed. One that is gone is nothing to stop, and one whose host
        does not answer cannot be: the campaign that ends here says so itself."""
        try:
            self._call("sleep")
        except AgentFailure as error:
            if not error.lost and error.code != GONE:
                raise error.as_lab_error() from error
        except LabError as error:
            if error.code != UNREACHABLE:
                raise
        finally:
            if self._agent is not None:
                self._agent.close()
                self._agent = None

    def facts(self) -> Json:
        """Checksum of its code, and the card of its model, as the service itself says them."""
        told = self._ask("facts")
        try:
            return {
                "image": "installed on the drone's host",
                "image_id": f"sha256:{told['code_sha256']}",
                "model": told["model"],
                "sha256": told["sha256"],
                "card": told["card"],
            }
        except KeyError as error:
            raise LabError(
                "detector",
                f"detector {self._name} does not say what it is",
                f"{error} is missing",
                "ansible-playbook provision.yml brings agent and detector of one tree",
            ) from error

    def usage(self) -> Json:
        """cpu_ns and rss_bytes of its process, and when that was read on its host."""
        return self._ask("usage")

    def _ask(self, action: str) -> Json:
        """Raises LabError with the agent's own words."""
        try:
            return self._call(action)
        except AgentFailure as error:
            raise error.as_lab_error() from error

    def _call(self, action: str) -> Json:
        """A connection that is gone is made anew, once: the agent may have been started again."""
        if self._agent is None:
            self._agent = self._connect()
        asked = {"name": self._name, "action": action}
        try:
            return self._agent.call(METHOD, asked, timeout_s=_ANSWER_S)
        except AgentFailure as error:
            if not error.lost:
                raise
            self._agent.abandon()
            return self._agent.call(METHOD, asked, timeout_s=_ANSWER_S)


def detectors_of(
    inventory: Inventory, connect: Connect, note: Callable[[str], None]
) -> dict[str, ResidentDriver]:
    """By name: those that the inventory says are installed at the drone, else those of the container lab."""
    if not inventory.detectors:
        return dict(compose_detectors(inventory.compose_project, note))
    return {
        name: HostDetector(name, lambda: Agent(inventory.agents["drone"], connect))
        for name in inventory.detectors
    }
