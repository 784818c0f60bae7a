"""Whether a cell can speak for the fleet that its condition asks for."""

from __future__ import annotations

from pqbase.documents import part_of
from pqevidence.record.facts import Facts
from pqevidence.record.fleet import DIALLING, DOCUMENT, FLEET_LOST, fleet_of, read_fleet
from pqevidence.record.raw import RawDataError


def problems(facts: Facts) -> list[str]:
    """Why it cannot; [] when it can, or has no fleet."""
    if fleet_of(facts.condition) is None:
        return []
    lost = [event for event in facts.cell.events if event.get("code") in FLEET_LOST]
    if lost:
        return [str(event.get("reason") or "no reason given") for event in lost]
    try:
        fleet = read_fleet(facts.cell.folder)
    except RawDataError as error:
        return [f"{error.what}: {error.why}"]
    if fleet is None:
        return [f"there is no {DOCUMENT}: nothing shows that a fleet flew"]
    absent = [stage for stage in DIALLING if stage not in part_of(fleet.document, "stages")]
    return [f"stage {stage} did not take place" for stage in absent]
