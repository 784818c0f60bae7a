"""A sign of life to both agents every few seconds, so that a session may take its time.

An agent that hears nothing for 60 s gives its cell up: so ends a session whose process was killed.
"""

from __future__ import annotations

import threading
from typing import Final

from pqbase.documents import Json, part_of
from pqevidence.errors import LabError
from pqlab.campaign.agents import AgentFailure, Pair

EVERY_S: Final = 5.0


class Pulse:
    """A thread with a connection of its own to each agent. lost: what is wrong with one; None while all is
    well."""

    def __init__(self, pair: Pair) -> None:
        self._agents = {role: agent.another() for role, agent in pair.agents.items()}
        self._stop = threading.Event()
        self.lost: LabError | None = None
        self._thread = threading.Thread(target=self._beat, name="fly-pulse", daemon=True)
        self._thread.start()

    def counters(self) -> dict[str, Json]:
        """Both agents' counters now. Raises AgentFailure."""
        return {
            role: dict(part_of(agent.call("counters"), "counters")) for role, agent in self._agents.items()
        }

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=EVERY_S)
        for agent in self._agents.values():
            agent.close()

    def _beat(self) -> None:
        while not self._stop.wait(EVERY_S):
            for agent in self._agents.values():
                try:
                    told = agent.call("counters")
                except AgentFailure as error:
                    self.lost = error.as_lab_error()
                    return
                if told["state"] != "running":
                    self.lost = LabError(
                        "session-over",
                        f"the {agent.role}'s agent ended the session",
                        f"it is {told['state']} now",
                        f"docker logs pqlab-{agent.role}-1 has the reason",
                    )
                    return
