"""The place of a shared rack that a campaign holds, as the campaign sees it: facts, still ours, power."""

from __future__ import annotations

from typing import Final, Protocol

from pqevidence.errors import LabError

PlaceFacts = dict[str, str | dict[str, str]]


class Place(Protocol):
    """name: None without a place. facts: what stands as `place` in hosts/<end>.json, empty without a place.
    powered: ends whose power can be switched. require_held: raises LabError when somebody else may have the
    place by now. power_cycle: off and on again; raises LabError when that did not take place."""

    @property
    def name(self) -> str | None: ...

    @property
    def facts(self) -> PlaceFacts: ...

    @property
    def powered(self) -> frozenset[str]: ...

    def require_held(self) -> None: ...

    def power_cycle(self, role: str) -> None: ...


class _NoPlace:
    """Hosts that nobody else uses."""

    name: Final[str | None] = None
    facts: Final[PlaceFacts] = {}
    powered: Final[frozenset[str]] = frozenset()

    def require_held(self) -> None:
        return

    def power_cycle(self, role: str) -> None:
        raise LabError(
            "no-power",
            f"nobody switches the power of the {role}",
            "the campaign holds no place of a rack",
            "./pqlab run … --place NAME (docs/PLACES.md)",
        )


NO_PLACE: Final[Place] = _NoPlace()
