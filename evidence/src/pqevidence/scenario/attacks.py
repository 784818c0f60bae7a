"""Foreign traffic of a condition as one list of timed events, however the scenario writes it down."""

from __future__ import annotations

from collections.abc import Mapping

from pqattack.bounds import MAX_FOR_S
from pqattack.settings import BENIGN, Episode
from pqbase.documents import Json, number_of, part_of, rows_of

KIND = "attack"
#: the whole of what one cell may send
MAX_CELL_S = MAX_FOR_S


def attack_events(condition: Mapping[str, object]) -> list[Json]:
    """Every attack of the condition as an event with `at_s`, `for_s` and `attack`, in order of time."""
    events = [dict(event) for event in rows_of(condition, "events", []) if event.get("kind") == KIND]
    own = condition.get("attack")
    if isinstance(own, Mapping):
        rest = {key: value for key, value in own.items() if key not in ("start_s", "for_s")}
        start_s = own.get("start_s")
        events.append(
            {"at_s": 0.0 if start_s is None else start_s, "kind": KIND, "for_s": own["for_s"], "attack": rest}
        )
    return sorted(events, key=lambda event: number_of(event, "at_s"))


def attacked(condition: Mapping[str, object]) -> bool:
    """Does anything foreign reach the air network in this condition, harmful or not?"""
    return bool(attack_events(condition))


def attacks_over_link(condition: Mapping[str, object]) -> bool:
    """Does foreign traffic share the router's queues with the session?"""
    return any(part_of(event, "attack").get("path") == "link" for event in attack_events(condition))


def episode_of(event: Mapping[str, object], cell_seed: int) -> Episode:
    """The episode that the event asks the attacker for. Raises pqattack's SettingsError."""
    told = {key: value for key, value in part_of(event, "attack").items() if key not in ("start_s", "for_s")}
    if told.get("seed") is None:
        told["seed"] = cell_seed
    return Episode.parse({**told, "for_s": event["for_s"]})


__all__ = ["BENIGN", "KIND", "MAX_CELL_S", "attack_events", "attacked", "attacks_over_link", "episode_of"]
