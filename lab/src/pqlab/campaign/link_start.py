"""The link's services on demand: started before the first cell that goes through them, left with the lab."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from pqlab.campaign.agents import Pair
from pqlab.campaign.clock import Clock
from pqlab.campaign.link import DEFAULT_ADDRESS, LinkControl, LinkFailure
from pqlab.campaign.timeline import Journal, Json, Timeline
from pqlab.paths import project_root
from pqlab.plan import Cell
from pqlab.scenario.conditions import routed

_START_LIMIT_S = 300.0


class LabTimelines:
    """Makes the timeline of each cell of a run in the container lab; one link control for all of them.

    note: told once when services are started, which takes some seconds.
    """

    def __init__(
        self,
        project: str | None,
        note: Callable[[str], None],
        address: tuple[str, int] = DEFAULT_ADDRESS,
    ) -> None:
        self._project = project
        self._note = note
        self._link = LinkControl(address)
        self._ready = False

    def make(
        self, condition: Json, cell: Cell, pair: Pair, clock: Clock, journal: Journal, folder: Path
    ) -> Timeline:
        """The timeline of one cell. Raises LinkFailure when the link's services do not start."""
        link = None
        if routed(condition) and self._project is not None:
            self._ensure()
            link = self._link
        return Timeline(condition, cell, pair, clock, journal, link, folder=folder, project=self._project)

    def close(self) -> None:
        """Give the link up."""
        self._link.close()

    def _ensure(self) -> None:
        if self._ready:
            return
        try:
            self._link.hello()
        except LinkFailure:
            self._note("starting the link router and its helpers")
            start_link()
            self._link.hello()
        self._ready = True


def start_link() -> None:
    """`compose/lab.sh profile link`. Raises LinkFailure with the end of what it said."""
    script = project_root() / "compose" / "lab.sh"
    try:
        done = subprocess.run(
            [str(script), "profile", "link"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=_START_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkFailure(
            "link-start", "the link's services do not start", str(error), "make lab-status"
        ) from error
    if done.returncode:
        last = " ".join(done.stdout.strip().splitlines()[-3:])
        raise LinkFailure(
            "link-start", "the link's services do not start", last, "./compose/lab.sh profile link"
        )
