"""Which data plane carried a cell's packets at each end, and whether it is the one that was due.

The Python plane is the executable specification and several times as expensive as the native one, so that a
host that falls back to it without being asked gives other numbers under the same name. What ran in the cell
stands in that end's event `prepare`, what ran when the run began and what was asked for in hosts/<role>.json,
whether the native core is installed in providers.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from pqbase.documents import part_of
from pqevidence.record.raw import ROLES, RawCell, RawRun
from pqevidence.record.sheet import Sheet

NATIVE, PYTHON = "native", "python"
#: what PQ_DATAPLANE can ask for; `auto`, where it is not set, promises the native one
ASKED = ("auto", NATIVE, PYTHON)


@dataclass(frozen=True)
class EndPlane:
    """One end. began: the plane when the run began; ran: in this cell; asked: one of ASKED; core: version of
    the native core. None: its host did not tell."""

    role: str
    began: str | None
    ran: str | None
    asked: str | None
    core: str | None

    @property
    def problem(self) -> str | None:
        """What was due and what ran, where that is not the same; None where it is, or where nobody tells."""
        if self.ran is None:
            return None
        if self.began is not None and self.ran != self.began:
            return f"{self.role}: {self.began} when the run began, {self.ran} in this cell"
        if self.asked == PYTHON and self.ran != PYTHON:
            return f"{self.role}: python was asked for, {self.ran} ran"
        if self.asked in ("auto", NATIVE) and self.ran != NATIVE:
            return f"{self.role}: native was expected ({self._why}), {self.ran} ran"
        return None

    @property
    def _why(self) -> str:
        asked = "PQ_DATAPLANE asks for it" if self.asked == NATIVE else "PQ_DATAPLANE asks for nothing else"
        return f"{asked}; {f'pq_core {self.core} is installed' if self.core else 'pq_core is not installed'}"


def planes_of(run: RawRun, cell: RawCell) -> dict[str, EndPlane]:
    """Role → what is on record of its data plane."""
    return {role: _end(role, run, cell) for role in ROLES}


def _end(role: str, run: RawRun, cell: RawCell) -> EndPlane:
    host = run.hosts.get(role) or {}
    core = part_of(run.providers, role, {}).get("core")
    began = _text(host.get("dataplane"))
    return EndPlane(
        role=role,
        began=began,
        ran=prepared_with(cell, role) or began,
        asked=_text(host.get("dataplane_asked")),
        core=_text(core.get("version")) if isinstance(core, dict) else None,
    )


def prepared_with(cell: RawCell, role: str) -> str | None:
    """The plane that this end named when it made ready; None from an agent that does not tell."""
    for event in cell.events:
        if event.get("host") == role and event.get("event") == "prepare":
            return _text(event.get("dataplane"))
    return None


def plane_problems(run: RawRun, cell: RawCell) -> list[str]:
    """For the verdict: each end whose packets another data plane carried than was due."""
    return [end.problem for end in planes_of(run, cell).values() if end.problem is not None]


def fill_planes(sheet: Sheet, run: RawRun, cell: RawCell) -> None:
    """Category A."""
    for role, end in planes_of(run, cell).items():
        sheet.put("A", f"dataplane_{role}", end.ran, absent="the agent did not say")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
