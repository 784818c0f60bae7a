"""What a cell needs of the timeline that puts a condition's link, rekeys and events into effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pqbase.documents import Json
from pqevidence.errors import LabError
from pqevidence.plan import Cell
from pqevidence.scenario.conditions import routed, without
from pqlab.campaign.agents import Pair
from pqlab.campaign.clock import Clock
from pqlab.campaign.journal import Journal


@dataclass
class LastWords:
    """What an end held when it was killed because the condition asks for that: counters, and streams by name.
    Its ledger and its samples go with it."""

    counters: Json
    streams: dict[str, list[str]] = field(default_factory=dict)


class CellTimeline(Protocol):
    """One cell's timed part.

    before: link in place and confirmed, ahead of the handshakes, which is told the cell's orders (a killed
    end is given them again); during: entered when the traffic window opens, runs the timed events; heal:
    undoes everything, always called, more than once does no harm. killed: ends killed so far, by role.
    """

    @property
    def killed(self) -> dict[str, LastWords]: ...

    def before(self, orders: Json | None = None) -> None: ...

    def during(self) -> AbstractContextManager[None]: ...

    def heal(self) -> list[Json]: ...


#: (condition, cell, both agents, clock, journal, the attempt's folder) → its timeline
MakeTimeline = Callable[[Json, Cell, Pair, Clock, Journal, Path], CellTimeline]


class Quiet:
    """The timeline of a condition in which nothing happens."""

    @property
    def killed(self) -> dict[str, LastWords]:
        return {}

    def before(self, orders: Json | None = None) -> None:
        return

    def during(self) -> AbstractContextManager[None]:
        return nullcontext()

    def heal(self) -> list[Json]:
        return []


def is_quiet(condition: Json) -> bool:
    """Does this condition leave link, keys and time alone?"""
    idle = all(condition.get(key, "none") == "none" for key in ("rekey", "attack", "policy"))
    return (
        idle
        and not routed(condition)
        and "telegraf" not in without(condition)
        and not condition.get("events")
    )


def without_events(
    condition: Json, cell: Cell, pair: Pair, clock: Clock, journal: Journal, folder: Path
) -> CellTimeline:
    """For surroundings that have no link and no events: quiet conditions only. Raises LabError."""
    del cell, pair, clock, journal, folder
    if not is_quiet(condition):
        raise LabError(
            "no-timeline",
            f"condition `{condition['name']}` needs link, rekey or events",
            "this lab was started without them",
            "./pqlab run … --condition with a quiet one",
        )
    return Quiet()
