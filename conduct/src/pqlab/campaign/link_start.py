"""Services on demand (link, attacker): started before the first cell that needs them, left with the lab."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from pqbase.documents import Json
from pqevidence.errors import LabError
from pqevidence.paths import project_root
from pqevidence.plan import Cell
from pqevidence.scenario.attacks import attacked
from pqevidence.scenario.conditions import routed
from pqlab.campaign.agents import Pair
from pqlab.campaign.attack import AttackControl, AttackFailure
from pqlab.campaign.clock import Clock
from pqlab.campaign.command import ended
from pqlab.campaign.link import LinkControl, LinkFailure
from pqlab.campaign.neighbours import NO_NEIGHBOURS, Neighbours
from pqlab.campaign.place import NO_PLACE, Place
from pqlab.campaign.timeline import Journal, Timeline

_START_LIMIT_S = 300.0


class LabTimelines:
    """Makes the timeline of each cell of a run in the container lab; one link control and one attacker's for
    all of them.

    note: told once when services are started, which takes some seconds.
    """

    def __init__(
        self,
        project: str | None,
        note: Callable[[str], None],
        address: tuple[str, int] | None = None,
        place: Place = NO_PLACE,
        neighbours: Neighbours = NO_NEIGHBOURS,
    ) -> None:
        self._project = project
        self._note = note
        self._place = place
        self._neighbours = neighbours
        self._link = LinkControl(address)
        self._attack = AttackControl()
        self._ready: set[str] = set()

    def make(
        self, condition: Json, cell: Cell, pair: Pair, clock: Clock, journal: Journal, folder: Path
    ) -> Timeline:
        """The timeline of one cell. Raises LabError when the services it needs do not start."""
        link = attack = None
        if self._project is not None:
            if routed(condition):
                self._ensure("link", self._link.hello)
                link = self._link
            if attacked(condition):
                self._ensure("attacker", self._attack.hello)
                attack = self._attack
        return Timeline(
            condition,
            cell,
            pair,
            clock,
            journal,
            link,
            attack,
            folder=folder,
            project=self._project,
            place=self._place,
            neighbours=self._neighbours,
        )

    def close(self) -> None:
        """Give link and attacker up."""
        try:
            self._attack.close()
        finally:
            self._link.close()

    def _ensure(self, profile: str, hello: Callable[[], object]) -> None:
        if profile in self._ready:
            return
        try:
            hello()
        except (LinkFailure, AttackFailure):
            self._note(f"starting the services of profile {profile}")
            start_profile(profile)
            hello()
        self._ready.add(profile)


def start_profile(profile: str) -> None:
    """`compose/lab.sh profile NAME`. Raises LabError with the end of what it said."""
    script = project_root() / "compose" / "lab.sh"
    again = f"./compose/lab.sh profile {profile}"
    what = f"the services of profile {profile} do not start"
    try:
        done = ended([str(script), "profile", profile], _START_LIMIT_S, as_one=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError("profile-start", what, str(error), "make lab-status") from error
    if done.returncode:
        last = " ".join(done.stdout.strip().splitlines()[-3:])
        raise LabError("profile-start", what, last, again)
