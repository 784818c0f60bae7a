"""The data plane: what hosts, providers and the cell's own files say of it must be one thing."""

from __future__ import annotations

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.planes import ASKED, NATIVE, PYTHON, EndPlane, planes_of, prepared_with
from pqevidence.record.raw import ROLES


def one_plane(cell: CellView, tally: Tally) -> None:
    """Each end's data plane by hosts/<role>.json, its event `prepare`, providers.json and its bins: they
    agree, and a result is of the plane that was due. Ends that differ are no lie, but a reader must know."""
    ends = planes_of(cell.run, cell.raw)
    for role, end in ends.items():
        tally.see()
        if not _told(cell, end, tally):
            continue
        where = f"{cell.label} {role}"
        if end.ran == NATIVE:
            tally.require(end.core is not None, f"{where}: native, and its providers hold no pq_core")
        else:
            tally.require(
                not _bins(cell, role), f"{where}: python, and it left bins, which native alone keeps"
            )
        if cell.verdict == "pass" and end.problem is not None:
            tally.fail(f"{cell.label}: a result, and {end.problem}")
    ran = [end.ran for end in ends.values() if end.ran is not None]
    if len(set(ran)) > 1:
        tally.warn(f"{cell.label}: {ran[0]} at the drone, {ran[1]} at the ground")
    tally.unit = "ends"


def _told(cell: CellView, end: EndPlane, tally: Tally) -> bool:
    """Does the end say what ran and what was asked for? An agent of another version may not."""
    own = prepared_with(cell.raw, end.role)
    # an end that was lost in the cell left no event at all
    silent = all(event.get("host") != end.role for event in cell.raw.events) and cell.verdict != "pass"
    known = end.began in (NATIVE, PYTHON) and end.asked in ASKED
    told = known and (silent or own in (NATIVE, PYTHON))
    if not told and has_witnesses(cell.run):
        said = f"{end.began} in hosts, {own} in its events, asked for {end.asked}"
        tally.fail(f"{cell.label} {end.role}: its data plane is not told: {said}")
    elif not told:
        tally.note = "not told by every agent of another version"
    return told


def _bins(cell: CellView, role: str) -> bool:
    path = cell.folder / ("bins.ndjson" if role == ROLES[0] else f"bins.{role}.ndjson")
    return path.is_file() and path.stat().st_size > 0
