"""Whether a cell can speak for the foreign traffic that its condition asks for."""

from __future__ import annotations

from pqevidence.record.attack import (
    ATTACKER_LOST,
    FILE,
    account_problems,
    bounds_problems,
    sent_episodes,
    traffic_gate,
)
from pqevidence.record.facts import Facts
from pqevidence.record.raw import Json, RawCell, RawDataError
from pqevidence.scenario.attacks import attack_events


def problems(facts: Facts) -> list[str]:
    """Why the cell cannot speak for the foreign traffic of its condition; [] when it can, or has none."""
    errors = [event for event in facts.cell.events if event.get("event") == "error"]
    lost = [event for event in errors if event.get("code") in ATTACKER_LOST]
    found = [str(event.get("reason") or "no reason given") for event in lost]
    return [*found, *_against(facts.cell, facts.condition, facts.seed)]


def _against(cell: RawCell, condition: Json, seed: int) -> list[str]:
    if not attack_events(condition):
        return []
    gate = traffic_gate(cell)
    if cell.attack is None or gate is None:
        return [f"there is no {FILE}, or no traffic window: nothing shows what was sent"]
    try:
        episodes = sent_episodes(cell)
    except RawDataError as error:
        return [f"{error.what}: {error.why}"]
    return [*bounds_problems(episodes, condition, seed, gate), *account_problems(cell, episodes)]
