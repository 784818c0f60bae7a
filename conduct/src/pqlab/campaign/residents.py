"""Detectors of a campaign: started once, frozen whenever the cell in progress is not theirs.

So a cell without a detector is measured on a machine where none runs, and none has to warm up again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pqbase.documents import Json
from pqevidence.errors import LabError


class ResidentDriver(Protocol):
    """One resident service on its host. Every call is idempotent; raises LabError."""

    def start(self) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def forget(self) -> None:
        """Begin with an empty history; only while it is awake."""
        ...

    def mark(self) -> None:
        """What it sees from now to the end of this cell is not carried into the next; only while it is
        awake."""
        ...

    def stop(self) -> None: ...

    def facts(self) -> Json:
        """What it is: image, model, card. Before it is started, too."""
        ...

    def usage(self) -> Json:
        """What it has used so far: cpu_ns, rss_bytes, frozen; null with a reason where unknown."""
        ...


class Residents:
    """The detectors that the conditions name. With none named, every call does nothing."""

    def __init__(self, conditions: Iterable[Json], drivers: Mapping[str, ResidentDriver]) -> None:
        """Raises LabError for a detector that this lab has no driver for."""
        wanted = {str(condition.get("detector", "none")) for condition in conditions} - {"none"}
        if missing := sorted(wanted - set(drivers)):
            raise LabError(
                "no-detector",
                f"no detector `{missing[0]}` in this lab",
                "the inventory names none: pqlab_detectors of the drone says which are on its host",
                "name it there, then: ansible-playbook provision.yml; or choose conditions without one",
            )
        self._drivers = {name: drivers[name] for name in sorted(wanted)}
        self._others = [drivers[name] for name in sorted(set(drivers) - wanted)]
        self._awake: str | None = None

    def facts(self) -> dict[str, Json]:
        """By name, for providers.json; {} without detectors."""
        return {name: driver.facts() for name, driver in self._drivers.items()}

    def start(self) -> None:
        """All of them up and frozen, and whatever an earlier campaign left of others down."""
        for driver in self._others:
            driver.stop()
        for driver in self._drivers.values():
            driver.start()
            driver.freeze()

    def enter(self, condition: Json) -> None:
        """Wake the one that this cell's condition names, freeze the one that ran before it; without history
        where the condition says so."""
        wanted = str(condition.get("detector", "none"))
        if self._awake is not None and self._awake != wanted:
            self._drivers[self._awake].freeze()
            self._awake = None
        if wanted != "none" and self._awake is None:
            self._drivers[wanted].thaw()
            self._awake = wanted
        if wanted != "none" and condition.get("detector_history") != "warm":
            self._drivers[wanted].forget()

    def mark(self) -> None:
        """An attack of ours is about to begin in this cell: the detector shall not carry that into its next
        cell, which may be a warm one although this one began cold."""
        if self._awake is not None:
            self._drivers[self._awake].mark()

    def usage(self) -> dict[str, Json]:
        """Of every detector of the campaign, frozen ones too."""
        return {name: driver.usage() for name, driver in self._drivers.items()}

    def stop(self) -> None:
        """All of them down; called however the campaign ended."""
        self._awake = None
        for driver in self._drivers.values():
            driver.stop()


NO_RESIDENTS = Residents((), {})
