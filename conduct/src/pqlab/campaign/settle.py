"""Agents lost and found: both ends idle, reachable, and still the builds the run began with."""

from __future__ import annotations

from pqbase.documents import Json, part_of
from pqevidence.errors import LabError
from pqlab.campaign import hosts
from pqlab.campaign.agents import KEY_CODES, Agent, AgentFailure, Pair
from pqlab.campaign.store import Store
from pqlab.campaign.surroundings import Surroundings

#: nothing is measured of the controller; its kernel may be a newer one after a power cut
CONTROLLER_FACTS = ("machine", "cpu_model")
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
#: an agent that has just started answers when its self-test is through; on an emulated processor: minutes
HELLO_S = 180.0


def greet(pair: Pair) -> dict[str, Json]:
    """hello of both ends. Raises LabError naming the end that does not answer."""
    try:
        return pair.both("hello", timeout_s=HELLO_S)
    except AgentFailure as error:
        raise error.as_lab_error() from error


def same_builds(before: Json, hello: dict[str, Json], run_id: str) -> None:
    """Raises LabError when an end is another build than when the run began."""
    for role, facts in hello.items():
        changed = hosts.different_builds(
            part_of(before, role), part_of(facts, "providers"), binaries=True, named=("then", "now")
        )
        if changed:
            raise LabError(
                "builds-changed",
                f"the {role} is another build than when run {run_id} began: " + ", ".join(changed),
                "cells of different builds do not belong in one run",
                "bring the former images back, or begin anew: ./pqlab run",
            )


def same_detectors(before: Json, now: dict[str, Json], run_id: str) -> None:
    """Raises LabError when a detector is another image or model than when the run began."""
    then = part_of(before, "detectors", {})
    changed = [
        name
        for name, facts in now.items()
        if any(part_of(then, name, {}).get(key) != facts[key] for key in ("image_id", "sha256"))
    ]
    if changed:
        raise LabError(
            "builds-changed",
            f"another build than when run {run_id} began: detector {', '.join(changed)}",
            "cells of different detectors do not belong in one run",
            "bring the former images back, or begin anew: ./pqlab run",
        )


def same_hosts(store: Store, hello: dict[str, Json], controller: Json) -> None:
    """Raises LabError when an end, or the controller's machine, is another than when the run began. Boot ids
    and names may change."""
    from pqevidence.analysis.origin import HOST_FACTS  # not for `validate` and `plan`, which import this, too

    machines: dict[str, tuple[Json, tuple[str, ...]]] = {
        role: (part_of(facts, "host"), HOST_FACTS) for role, facts in hello.items()
    }
    machines["controller"] = part_of(controller, "host"), CONTROLLER_FACTS
    for role, (now, facts) in machines.items():
        then = part_of(store.read(f"hosts/{role}.json"), "host")
        changed = [
            f"{name} ({then.get(name)} then, {now.get(name)} now)"
            for name in facts
            if then.get(name) != now.get(name)
        ]
        if changed:
            raise LabError(
                "hosts-changed",
                f"the {role} is another machine than when run {store.run_id} began: {', '.join(changed)}",
                "cells of different machines do not belong in one run",
                "bring the former machine back, or begin anew: ./pqlab run",
            )


class Settler:
    """Brings both agents back to idle before a cell, and after one that lost them."""

    def __init__(self, around: Surroundings, pair: Pair, store: Store, ring: str) -> None:
        self._around = around
        self._pair = pair
        self._store = store
        self._ring = ring

    def settle(self, *, first: bool = False) -> None:
        """Until both ends answer, are idle and are the builds the run began with. Raises LabError."""
        clock = self._around.clock
        deadline_s = clock.monotonic_s() + self._around.recovery_s
        told = False
        for turn in range(10**6):
            try:
                if all(self._make_idle(agent, first=first) for agent in self._pair.agents.values()):
                    break
                if clock.monotonic_s() > deadline_s:
                    raise LabError(
                        "lab-busy",
                        "the agents carry out another controller's cell",
                        "a controller elsewhere drives this lab",
                        "wait for its run, or stop it there",
                    )
                clock.sleep(_PAUSES_S[-1])
            except AgentFailure as error:
                if error.code in KEY_CODES or clock.monotonic_s() > deadline_s:
                    raise error.as_lab_error() from error
                mended = self._around.supervisor.mend()
                for line in mended:
                    self._around.reporter.note(line)
                if not told and not first and not mended:
                    self._around.reporter.note(f"{error.what}; waiting for it")
                told = True
                for agent in self._pair.agents.values():
                    agent.abandon()
                clock.sleep(_PAUSES_S[min(turn, len(_PAUSES_S) - 1)])
        if not first:
            same_builds(self._store.read("providers.json"), greet(self._pair), self._store.run_id)

    def release(self, cell_id: str) -> None:
        """Both ends back to idle before this process goes; one that cannot be reached has its watchdog."""
        for agent in self._pair.agents.values():
            agent.abandon()
            try:
                agent.call("stop", {"cell_id": cell_id}, timeout_s=5.0)
            except AgentFailure as error:
                if error.lost:
                    self._around.reporter.note(f"{error.what}; it returns to idle by itself within 60 s")
                # a refusal means there is nothing left to stop

    def _make_idle(self, agent: Agent, *, first: bool) -> bool:
        """Is the agent idle now? A cell that a dead controller left behind is stopped.

        In the lab ring every controller is on this machine, so the lock proves that one dead. A controller of
        real hardware may sit elsewhere: its cell is left alone until it ends or the agent's watchdog ends it.
        """
        state = agent.call("counters")
        if state["state"] == "idle":
            return True
        if first and self._ring == "hardware":
            return False
        agent.call("stop", {"cell_id": state["cell_id"]})
        return True
