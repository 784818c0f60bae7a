"""What happened when in a cell, for the drawings of the live view: rekeys, impairments, attacks, the canary.

From events alone, so that a cell in progress has bands too: the controller tells its own as they happen, the
agents' rekeys come when the cell has ended. The record's own bands are `pqevidence.analysis.timeline`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pqbase.documents import Json, number_of, part_of, whole_of
from pqevidence.scenario.attacks import BENIGN
from pqevidence.scenario.conditions import sets_something
from pqlab.campaign.canary import ALARM_ENDS_S, CANARY_WINDOW
from pqlab.campaign.cell import TRAFFIC_WINDOW

_LINK_EVENTS = ("link", "partition")


@dataclass(frozen=True)
class Band:
    """One span, realtime s. kind: rekey, impairment, attack or canary; told: which one; benign: of an attack
    that only looks like one."""

    kind: str
    from_s: float
    to_s: float
    told: str
    benign: bool = False

    def as_dict(self) -> Json:
        """JSON-ready."""
        return {
            "kind": self.kind,
            "from_s": self.from_s,
            "to_s": self.to_s,
            "told": f"{self.told} (harmless)" if self.benign else self.told,
        }


def bands_of(events: Iterable[Json], condition: Mapping[str, object], now_s: float) -> list[Band]:
    """Bands of one cell, in order of their beginning. What has not ended yet ends at `now_s`."""
    rows = sorted(events, key=lambda row: whole_of(row, "t_ns", 0))
    windows = _windows(rows, now_s)
    found = [Band("canary", *window, "known attack") for window in windows.get(CANARY_WINDOW, [])]
    session = windows.get(TRAFFIC_WINDOW, [])
    if sets_something(condition.get("link")):
        name = str(part_of(condition, "link", {}).get("name") or "link")
        found += [Band("impairment", *window, name) for window in session]
    for row in rows:
        at_s = whole_of(row, "t_ns", 0) / 1e9
        if row.get("event") == "rekey" and row.get("host") == "drone" and row.get("end_ns"):
            ends_s = whole_of(row, "start_ns") / 1e9, whole_of(row, "end_ns") / 1e9
            found.append(Band("rekey", *ends_s, str(row.get("result"))))
        elif row.get("event") == "timed_event" and row.get("ok"):
            until_s = at_s + number_of(row, "for_s") if row.get("for_s") else _end_of(session, at_s, now_s)
            if row.get("timed") in _LINK_EVENTS:
                found.append(Band("impairment", at_s, until_s, str(row["timed"])))
            elif row.get("timed") == "attack" and not _within(found, "canary", at_s):
                kind = str(part_of(row, "attack", {}).get("kind") or "attack")
                found.append(Band("attack", at_s, until_s, kind, kind in BENIGN))
    return sorted(found, key=lambda band: band.from_s)


def under_way(bands: Iterable[Band], kind: str, now_s: float) -> Band | None:
    """The band of that kind that holds `now_s`; an alarm may stand a while after an attack, so attack and
    canary last until none can."""
    more_s = ALARM_ENDS_S if kind in ("attack", "canary") else 0.0
    holding = [band for band in bands if band.kind == kind and band.from_s <= now_s <= band.to_s + more_s]
    return holding[-1] if holding else None


def _windows(rows: list[Json], now_s: float) -> dict[str, list[tuple[float, float]]]:
    """Window → its spans, realtime s."""
    begun: dict[str, float] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name, t_s = str(row.get("window")), whole_of(row, "t_ns", 0) / 1e9
        if row.get("event") == "window_start":
            begun[name] = t_s
        elif row.get("event") == "window_end" and name in begun:
            found.setdefault(name, []).append((begun.pop(name), t_s))
    ended_s = max((whole_of(r, "t_ns") / 1e9 for r in rows if r.get("event") == "cell_end"), default=now_s)
    for name, from_s in begun.items():
        found.setdefault(name, []).append((from_s, ended_s))
    return found


def _end_of(session: list[tuple[float, float]], at_s: float, now_s: float) -> float:
    return next((to_s for from_s, to_s in session if from_s <= at_s <= to_s), now_s)


def _within(bands: list[Band], kind: str, at_s: float) -> bool:
    return any(band.kind == kind and band.from_s <= at_s <= band.to_s for band in bands)
