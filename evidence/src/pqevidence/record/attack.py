"""attack.ndjson: what the attacker says it sent, held against the scenario and against the ends' counters.

Its first line is a header; then each episode, followed by its counts by 20 ms of real time. Only what the
attacker itself sent is in it, so it is ground truth for a detector, and the counters are its witness.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from pqattack.bounds import BIN_NS, MAX_BIN_COUNT
from pqattack.errors import SettingsError
from pqattack.profile import due_of
from pqattack.settings import Episode
from pqbase.documents import part_of, part_or_none, whole_of
from pqevidence.record.dataplane import TRAFFIC, gate_ns, window_counter
from pqevidence.record.raw import Json, RawCell, RawDataError
from pqevidence.scenario.attacks import attack_events, episode_of

FILE: Final = "attack.ndjson"
SCHEMA: Final = "pqattack/truth/v1"
#: how much later than asked an episode may begin, and how long after its end it may still be sent
LATE_BEGIN_S: Final = 1.0
LATE_END_S: Final = 0.25
#: an attacker that sent less than this share of what was asked for did not attack as the condition says
LEAST_SHARE: Final = 0.90
#: errors of a controller that was too slow to say that it is still there: the measurement did not take place
ATTACKER_LOST: Final = ("attack-not-held", "attack-lapsed")
REFUSED: Final = ("bad_header", "unknown_index", "auth_failed", "duplicate", "replay", "old_epoch")
#: how the ground refuses a Hello that no drone made; an honest handshake over a lossy link may be among them
REFUSED_HELLOS: Final = (
    "hs_bad_mac", "hs_rate_limited", "hs_half_open_limit", "hs_evicted", "hs_timeout", "hs_policy",
    "hs_unknown_suite",
)  # fmt: skip
#: what an end refused beyond what was sent: late or doubled datagrams of its peer's
STRAY_SHARE: Final = 0.002
STRAY_COUNT: Final = 20


@dataclass
class SentEpisode:
    """One episode of the file. bins: (number, count) in order."""

    number: int
    asked: Episode
    t_on_ns: int | None
    t_off_ns: int | None
    sent: int
    ended: str
    bins: list[tuple[int, int]] = field(default_factory=list)


def truth_lines(cell_id: str, truths: list[Json]) -> list[str]:
    """The attacker's answers as the lines of attack.ndjson."""
    rows: list[Json] = [{"schema": SCHEMA, "cell_id": cell_id, "bin_ns": BIN_NS}]
    for truth in truths:
        rows.append({key: value for key, value in truth.items() if key not in ("bins", "bin_ns")})
        rows += [
            {"episode": truth["episode"], "bin": number, "sent": count} for number, count in truth["bins"]
        ]
    return [json.dumps(row, separators=(",", ":")) for row in rows]


def sent_episodes(cell: RawCell) -> list[SentEpisode]:
    """The episodes of the cell's file. Raises RawDataError where it is not what it should be."""
    rows, path = cell.attack or [], cell.folder / FILE
    if not rows or rows[0].get("schema") != SCHEMA or rows[0].get("bin_ns") != BIN_NS:
        raise RawDataError(path, f"line 1 is no header of {SCHEMA}")
    episodes: list[SentEpisode] = []
    for number, row in enumerate(rows[1:], 2):
        try:
            if "bin" in row:
                current = episodes[-1]
                if row["episode"] != current.number:
                    raise ValueError(f"a bin of episode {row['episode']!r} after episode {current.number}")
                current.bins.append((int(row["bin"]), int(row["sent"])))
            else:
                episodes.append(_episode(row))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, SettingsError) as error:
            raise RawDataError(path, f"line {number}: {error!r}") from error
    return episodes


def _episode(row: Json) -> SentEpisode:
    keys = Episode.__dataclass_fields__
    times = (row["t_on_ns"], row["t_off_ns"])
    return SentEpisode(
        number=int(row["episode"]),
        asked=Episode.parse({key: row[key] for key in keys}),
        t_on_ns=None if times[0] is None else int(times[0]),
        t_off_ns=None if times[1] is None else int(times[1]),
        sent=int(row["sent_count"]),
        ended=str(row["ended"]),
    )


# ---------------------------------------------------------------------- as the condition says


def bounds_problems(
    episodes: list[SentEpisode], condition: Json, seed: int, gate: tuple[int, int]
) -> list[str]:
    """Where the account is not what the condition asked for, or not within what is ever allowed.

    gate: (open, close) of the traffic window at the drone, realtime ns; seed: the cell's.
    """
    events = attack_events(condition)
    if len(events) != len(episodes):
        return [f"{len(episodes)} episodes in {FILE}, the condition has {len(events)}"]
    found = []
    for event, told in zip(events, episodes, strict=True):
        found += [f"episode {told.number}: {text}" for text in _one(event, told, seed, gate)]
    return found


def _one(event: Json, told: SentEpisode, seed: int, gate: tuple[int, int]) -> list[str]:
    found = []
    if told.asked != (due := episode_of(event, seed)):
        found.append(f"sent as {told.asked}, the condition says {due}")
    if told.ended != "deadline":
        found.append(f"ended because of: {told.ended}")
    if sum(count for _, count in told.bins) != told.sent:
        found.append(f"{told.sent} sent, {sum(c for _, c in told.bins)} in its bins")
    if told.bins != sorted(told.bins) or any(count < 1 for _, count in told.bins):
        found.append("bins out of order, or empty")
    fullest = max((count for _, count in told.bins), default=0)
    if fullest > MAX_BIN_COUNT:
        found.append(f"{fullest} in 20 ms, {MAX_BIN_COUNT} are the most there may be")
    if told.sent < LEAST_SHARE * (due_count := expected_count(due)) - 1:
        found.append(f"{told.sent} sent, {due_count:.0f} are due")
    if told.t_on_ns is None or told.t_off_ns is None:
        return [*found, "nothing was sent"]
    # counted from the controller's window, which opens the drone's gate a moment later
    begin_ns = gate[0] + round(float(event["at_s"]) * 1e9)
    end_ns = begin_ns + round((due.for_s + LATE_BEGIN_S + LATE_END_S) * 1e9)
    early_ns = begin_ns - round(LATE_BEGIN_S * 1e9)
    if not early_ns <= told.t_on_ns <= told.t_off_ns <= end_ns:
        found.append(
            f"sent from {(told.t_on_ns - gate[0]) / 1e9:.2f} to {(told.t_off_ns - gate[0]) / 1e9:.2f} s, "
            f"{float(event['at_s']):g} to {float(event['at_s']) + due.for_s:g} s are due"
        )
    first, last = told.bins[0][0], told.bins[-1][0]
    if first != told.t_on_ns // BIN_NS or last != told.t_off_ns // BIN_NS:
        found.append("its bins begin or end at another time than it does")
    return found


def expected_count(episode: Episode) -> float:
    """Datagrams that the settings ask for."""
    return due_of(episode)(episode.for_s)


# ---------------------------------------------------------------------- as the ends counted


def account_problems(cell: RawCell, episodes: list[SentEpisode]) -> list[str]:
    """Where what an end refused is not what was sent to it, within the loss of the path.

    Direct: what was sent arrived, or was dropped by the end's full socket. Over the link: what the router
    delivered did. Hellos were refused at the ground, for whatever reason it counts. Spoofed datagrams are
    counted by the router as the peer's, so that of them only an upper bound is known there.
    """
    found = _hellos(cell, sum(e.sent for e in episodes if e.asked.kind == "handshake-flood"))
    for role in ("drone", "gcs"):
        mine = [e for e in episodes if e.asked.target == role and e.asked.kind != "handshake-flood"]
        refused = sum(_counted(cell, role, name) for name in REFUSED)
        dropped = _counted(cell, role, "queue_full")
        least, most = 0, 0
        for episode in mine:
            if episode.asked.path == "direct":
                least += episode.sent
            most += episode.sent
        routed = [e for e in mine if e.asked.path == "link" and e.asked.kind != "spoof"]
        if routed:
            guests = _guests(cell, role)
            if guests is None:
                found.append(f"{role}: link.json does not say what the router let through")
                continue
            delivered, offered = guests
            sent = sum(e.sent for e in routed)
            if offered != sent:
                found.append(f"{role}: {sent} sent over the link, {offered} came to the router")
            least += delivered
            most += delivered - sent
        slack = max(STRAY_COUNT, STRAY_SHARE * most)
        if not least - slack <= refused + dropped or refused > most + slack:
            found.append(f"{role}: {refused} refused and {dropped} dropped, {least} to {most} had reached it")
    return found


def _hellos(cell: RawCell, sent: int) -> list[str]:
    ground = (cell.counters or {}).get("gcs") or {}
    refused = sum(int(ground.get(name, 0)) for name in REFUSED_HELLOS)
    slack = max(STRAY_COUNT, STRAY_SHARE * sent)
    if not sent or sent - slack <= refused:
        return []
    return [f"gcs: {refused} handshakes refused, {sent} Hellos had been sent"]


def _counted(cell: RawCell, role: str, name: str) -> int:
    return window_counter(cell.counters, role, TRAFFIC, name) or 0


def _guests(cell: RawCell, role: str) -> tuple[int, int] | None:
    """(delivered, offered) of the attacker's packets at the router, in the direction that leads to `role`."""
    router: Json = (cell.link or {}).get("router") or {}
    guests = part_or_none(part_of(router, "guests", {}), "down" if role == "drone" else "up")
    return None if guests is None else (whole_of(guests, "delivered"), whole_of(guests, "offered"))


def foreign(cell: RawCell) -> dict[str, int]:
    """Datagrams that no peer can have sent, by end and reason: what no cell without attack may have."""
    found = {}
    for role, counters in (cell.counters or {}).items():
        for name in ("bad_header", "auth_failed"):
            if count := int(counters.get(name, 0)):
                found[f"{role} {name}"] = count
    return found


def traffic_gate(cell: RawCell) -> tuple[int, int] | None:
    """(open, close) of the drone's gate in the traffic window."""
    return gate_ns((cell.traffic or {}).get(TRAFFIC) or {}, "drone")
