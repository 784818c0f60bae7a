"""What a campaign touches, what it is asked for beside its scenario, and what it gives back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pqbase.documents import Json
from pqevidence.share import Share
from pqlab.campaign.agents import Connect
from pqlab.campaign.clock import Clock
from pqlab.campaign.fleet import NO_FLEET, Fleet
from pqlab.campaign.hosts import controller_document
from pqlab.campaign.neighbours import NO_NEIGHBOURS, Neighbours
from pqlab.campaign.observers import NO_OBSERVERS, Observers
from pqlab.campaign.outputs import Outputs
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.campaign.residents import ResidentDriver
from pqlab.campaign.supervisor import NO_SUPERVISOR, Supervisor
from pqlab.campaign.timed import MakeTimeline, without_events
from pqlab.inventory import Inventory
from pqlab.progress import Reporter

#: how long a lost agent may take to come back (its container restarts and tests itself)
RECOVERY_S = 90.0


def load_average() -> list[float] | None:
    """Of 1, 5 and 15 minutes."""
    return list(os.getloadavg())


@dataclass(frozen=True)
class Result:
    """What a finished run gives back: sealed bundle, cells by verdict, warnings, exit code of the process."""

    bundle: Path
    verdict_counts: dict[str, int]
    warnings: list[str]
    exit_code: int


@dataclass(frozen=True)
class Surroundings:
    """Everything a campaign touches that a test may replace, and the options of its command line.

    strict: warnings end with 1; rerun_failed: failed and invalid cells are tried again; max_fail: stop after
    so many of them; only: beginnings of the cell ids to carry out now; into: sealed bundle to add to;
    share: the blocks of the campaign to carry out, None for all;
    seal: file for the digest of the plan and the agents' public keys, written before the first cell.
    load, controller: this machine's load average and facts; earlier: its newest bundle gives expected times.
    settle_s: how long to wait for a quiet machine before the first cell, None where no machine disturbs the
    clock; busy_ok: go on without one.
    supervisor: knows the containers of the lab, and puts one back.
    fleet: carries out what conditions ask of one.
    place: of a shared rack, held while the campaign runs.
    steadiness: governor, clocks and the like of this machine, asked before the first cell and after the last.
    """

    inventory: Inventory
    results: Path
    connect: Connect
    clock: Clock
    outputs: Outputs
    reporter: Reporter
    token: Callable[[], str]
    command: list[str]
    strict: bool = False
    rerun_failed: bool = False
    max_fail: int | None = None
    only: tuple[str, ...] = ()
    into: Path | None = None
    seal: Path | None = None
    share: Share | None = None
    recovery_s: float = RECOVERY_S
    timeline: MakeTimeline = without_events
    residents: Mapping[str, ResidentDriver] = field(default_factory=dict)
    observers: Observers = NO_OBSERVERS
    neighbours: Neighbours = NO_NEIGHBOURS
    supervisor: Supervisor = NO_SUPERVISOR
    fleet: Fleet = NO_FLEET
    place: Place = NO_PLACE
    settle_s: float | None = None
    busy_ok: bool = False
    load: Callable[[], list[float] | None] = load_average
    controller: Callable[[], Json] = controller_document
    earlier: bool = True
    steadiness: Callable[[], Json | None] = lambda: None
