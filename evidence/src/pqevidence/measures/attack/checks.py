"""Foreign traffic: where the condition says so, as it says so, counted at the ends; nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.attack import (
    FILE,
    REFUSED,
    SentEpisode,
    account_problems,
    bounds_problems,
    expected_count,
    foreign,
    sent_episodes,
    traffic_gate,
)
from pqevidence.record.raw import ROLES
from pqevidence.scenario.attacks import attacked

#: bins of 20 ms that a datagram may wait in a full socket before it is refused
LATE_BINS = 10
#: bins before the first datagram was sent, in which nothing of it can have been refused
EARLIER_BINS = 50
#: of what an episode asks for, the most that is sent
MOST_SHARE = 1.1
#: an end may refuse a stray of its peer's
STRAY_COUNT, STRAY_SHARE = 20, 0.002


def bounded(cell: CellView, tally: Tally) -> None:
    """attack.ndjson: the condition's episodes, each in its time, none above what is ever allowed."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not attacked(condition):
        tally.require(cell.raw.attack is None, f"{cell.label}: {FILE} in a cell that names no attack")
        return
    tally.see()
    gate = traffic_gate(cell.raw)
    if cell.raw.attack is None or gate is None:
        tally.fail(f"{cell.label}: there is no {FILE}, or no traffic window")
        return
    for problem in bounds_problems(sent_episodes(cell.raw), condition, int(cell.plan["seed"]), gate):
        tally.fail(f"{cell.label}: {problem}")


def counted(cell: CellView, tally: Tally) -> None:
    """What was sent is what the ends refused, within the loss of its path."""
    if cell.raw.attack is None:
        return
    tally.see()
    for problem in account_problems(cell.raw, sent_episodes(cell.raw)):
        tally.fail(f"{cell.label}: {problem}")


def nothing_foreign(cell: CellView, tally: Tally) -> None:
    """In the lab nobody else is on air: where nothing foreign is sent, nothing foreign may have come."""
    if attacked(cell.run.condition(str(cell.plan["condition"]))) or cell.run.scenario.get("ring") != "lab":
        return
    tally.see()
    for what, count in foreign(cell.raw).items():
        tally.fail(f"{cell.label}: {what} {count}, and its condition names no attack")


def in_step(cell: CellView, tally: Tally) -> None:
    """In each 20 ms the end had refused what the attacker had sent until then, by the end's own bins: the
    truth about when an attack was on has a witness. So has that about the canary, before which no alarm may
    have stood; of cells that do not pass only that nothing was refused before it was sent."""
    canary, passed = cell.raw.canary, cell.verdict == "pass"
    if canary is not None and canary.truth and passed and any("bin" in row for row in canary.truth):
        for episode in sent_episodes(replace(cell.raw, attack=canary.truth)):
            binned = sum(count for _, count in episode.bins)
            due = expected_count(episode.asked)
            tally.require(
                binned == episode.sent <= MOST_SHARE * due + STRAY_COUNT,
                f"{cell.label}: {episode.sent} sent by canary/{FILE}, {binned} in its bins, {due:.0f} asked",
            )
    for rows, name, shares in (
        (cell.raw.attack if passed else None, FILE, cell.raw.counters or {}),
        (canary.truth if canary else None, f"canary/{FILE}", canary.counters if canary else {}),
    ):
        if not any("bin" in row for row in rows or []):
            continue
        episodes = [
            e for e in sent_episodes(replace(cell.raw, attack=rows)) if e.asked.kind != "handshake-flood"
        ]
        for role in ROLES:
            mine = [e for e in episodes if e.asked.target == role]
            if mine and all(e.asked.path == "direct" for e in mine):
                dropped = int((shares.get(role) or {}).get("queue_full", 0))
                _of_end(cell, role, mine, name, dropped, tally)


def _of_end(
    cell: CellView, role: str, episodes: list[SentEpisode], name: str, dropped: int, tally: Tally
) -> None:
    path = cell.folder / ("bins.ndjson" if role == "drone" else f"bins.{role}.ndjson")
    refused = _refused(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else None
    sent: dict[int, int] = {}
    for number, count in (row for episode in episodes for row in episode.bins):
        sent[number] = sent.get(number, 0) + count
    if refused is None or not sent:
        return
    tally.see()
    passed = cell.verdict == "pass"
    # what was refused of the cell's own attack is no witness about its canary
    begin = LATE_BINS if cell.raw.attack is not None else LATE_BINS + EARLIER_BINS
    span = range(min(sent) - begin, max(sent) + 2 * LATE_BINS)
    told = list(accumulate(sent.get(number, 0) for number in span))
    felt = list(accumulate(refused.get(number, 0) for number in span))
    slack = max(STRAY_COUNT, round(STRAY_SHARE * told[-1]))
    newest = max(refused, default=0)  # what came after the end's last bin, no bin can tell
    for place in range(len(span) - LATE_BINS):
        early = felt[place] > told[place + (1 if passed else LATE_BINS)] + slack
        known = passed and span[place + LATE_BINS] <= newest
        if early or (known and felt[place + LATE_BINS] < told[place] - dropped - slack):
            seen, when = (felt[place], "then") if early else (felt[place + LATE_BINS], "0.2 s later")
            tally.fail(
                f"{cell.label}: until bin {span[place]} {told[place]} were sent by {name}, {path.name} of "
                f"the {role} has {seen} refused until {when}"
            )
            return


def _refused(lines: list[str]) -> dict[int, int] | None:
    """Refused datagrams by bin; None where the bins do not count them."""
    places: list[int] = []
    counts: dict[int, int] = {}
    for line in lines:
        row = json.loads(line)
        if isinstance(row, list):
            counts[int(row[0])] = sum(int(row[1][place]) for place in places)
        elif "fields" in row:
            places = [row["fields"].index(name) for name in REFUSED if name in row["fields"]]
    return counts if places else None
