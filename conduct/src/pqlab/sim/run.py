"""From a scenario to a sealed bundle of ring sim, through the same engine as every other run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pqbase.documents import Json
from pqevidence.errors import UsageError
from pqevidence.plan import Cell
from pqevidence.scenario.conditions import keeps_flight_log
from pqevidence.scenario.model import Scenario
from pqevidence.share import Share
from pqlab.campaign.agents import Pair
from pqlab.campaign.clock import Clock
from pqlab.campaign.engine import Campaign, Result, Surroundings
from pqlab.campaign.journal import Journal
from pqlab.campaign.outputs import production
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.campaign.ring import at_ring
from pqlab.campaign.store import read_json
from pqlab.campaign.timed import CellTimeline
from pqlab.campaign.timeline import Timeline
from pqlab.inventory import Inventory
from pqlab.progress import Reporter
from pqlab.sim.agent import SimLab
from pqlab.sim.clock import START_NS
from pqlab.sim.facts import controller_facts
from pqlab.sim.machine import SimMachine
from pqtunnel.suites import SUITES

#: condition keys that need something the simulation does not have
#: virtual time between the end of a bundle and the run that adds to it
GAP_NS = 1_000_000_000
NOT_SIMULATED = ("detector", "feed", "link", "attack", "policy", "events", "without", "fleet")


def carry_out(
    scenario: Scenario,
    inventory: Inventory,
    *,
    results: Path,
    reporter: Reporter,
    token: Callable[[], str],
    command: list[str],
    strict: bool = False,
    max_fail: int | None = None,
    into: Path | None = None,
    seal: Path | None = None,
    share: Share | None = None,
    machine: SimMachine | None = None,
    place: Place = NO_PLACE,
) -> Result:
    """The whole run. Raises UsageError for a scenario that the simulation cannot carry, and LabError."""
    scenario, lab = stage(scenario, inventory, machine)
    if into is not None:
        lab.clock.advance_to(after(into))
    with tempfile.TemporaryDirectory(prefix="pqlab-sim-") as folder:
        lab.identities.write_secrets(Path(folder))
        around = Surroundings(
            inventory=replace(inventory, keys=Path(folder), influx_url=None, compose_project=None),
            results=results,
            connect=lab.connect,
            clock=lab.clock,
            outputs=production(None, ""),
            reporter=reporter,
            token=token,
            command=command,
            strict=strict,
            max_fail=max_fail,
            into=into,
            seal=seal,
            share=share,
            earlier=False,
            place=place,
            timeline=_timeline,
            load=lambda: None,
            controller=lambda: controller_facts(lab.machine),
        )
        return Campaign.begin(around, scenario).carry_out()


def after(into: Path) -> int:
    """When a run that adds to this bundle begins, on the virtual clock, ns: a second after the one before, as
    runs follow one another. 0 where it does not say; what is wrong with it is for the extension to tell.
    """
    path = into / "data" / "run.json"
    ended_ns = read_json(path).get("ended_ns") if path.is_file() else None
    return max(0, ended_ns + GAP_NS - START_NS) if isinstance(ended_ns, int) else 0


def stage(
    scenario: Scenario, inventory: Inventory, machine: SimMachine | None = None
) -> tuple[Scenario, SimLab]:
    """The scenario at ring sim and the simulated ends that carry it. Raises UsageError as `carry_out`."""
    _check(scenario)
    return at_ring(scenario, inventory), SimLab(scenario.seed, tuple(SUITES), machine)


def _timeline(
    condition: Json, cell: Cell, pair: Pair, clock: Clock, journal: Journal, folder: Path
) -> CellTimeline:
    """The lab's own, with no link and no project to act on: what is left is the rekey schedule."""
    return Timeline(condition, cell, pair, clock, journal, None, folder=folder)


def _check(scenario: Scenario) -> None:
    if scenario.handshake["pooled"] is not None:
        raise UsageError(
            "not-simulated",
            "the scenario asks for pooled handshakes",
            "a key pool trades memory for time, and ring sim has no time of its own",
            "write `pooled: null` under `handshake`, or run it on the lab",
        )
    if keeps_flight_log(scenario.data):
        raise UsageError(
            "not-simulated",
            "the scenario asks for telemetry logs",
            "datagrams of ring sim have a size and no MAVLink frame in them",
            "remove `tlog` under `traffic`, or run it on the lab",
        )
    for condition in scenario.conditions:
        asked = [key for key in NOT_SIMULATED if condition.get(key) not in (None, "none", [], False)]
        asked += ["drone_auth"] if condition["drone_auth"] != "psk" else []
        if asked:
            raise UsageError(
                "not-simulated",
                f"condition `{condition['name']}` asks for {', '.join(asked)}",
                "ring sim has handshakes, traffic and rekeys over a plain link",
                "leave the condition out with --condition NAME, or run it on the lab",
            )
