"""Category F: rekeys of a cell, what they cost the traffic, and the published model of their share beside it.

Blackout, late and lost packets come from the join of both ledgers around each switch, never from one end's
word. Blackout is what a pause grew by on the way: a source that sends seldom makes pauses of its own.
Φ(R) = T / (R + T) is a model: it takes a rekey as a pause, which a make-before-break one is not.
"""

from __future__ import annotations

from itertools import pairwise

from pqevidence.record.dataplane import TRAFFIC, DataPlane
from pqevidence.record.facts import Facts
from pqevidence.record.raw import Json, RawCell
from pqevidence.record.sheet import Sheet, as_value
from pqevidence.record.stats import mean, median
from pqtunnel.blackout import Switch, switches

NO_REKEY = "no rekey in this cell"
NO_LEDGER = "no ledger of both ends"
DIRECTIONS = (("drone", "gcs"), ("gcs", "drone"))


def switch_rows(plane: DataPlane) -> list[list[Switch]] | None:
    """Every switch within the traffic window by direction, down first; None without both ledgers."""
    if not plane.tx:
        return None
    found: list[list[Switch]] = []
    for sender, receiver in DIRECTIONS:
        tx, rx = plane.tx[sender], plane.rx[receiver]
        sent = [place for place, name in enumerate(tx.window) if name == TRAFFIC]
        keys = {tx.key[place] for place in sent}
        came = [place for place, key in enumerate(rx.key) if key in keys]
        found.append(
            switches(
                [tx.key[place] for place in sent],
                [tx.t_in_ns[place] for place in sent],
                [rx.key[place] for place in came],
                [rx.t_out_ns[place] for place in came],
            )
        )
    return found


def rekey_events(cell: RawCell) -> list[Json]:
    """The drone's rekey rows, in order of their start."""
    rows = [event for event in cell.events if event.get("event") == "rekey" and event.get("host") == "drone"]
    return sorted(rows, key=lambda row: int(row["start_ns"]))


def fill(sheet: Sheet, facts: Facts) -> None:
    """Category F."""
    cell = facts.cell
    rows = rekey_events(cell)
    counted: dict[str, object] = (cell.counters or {}).get("drone") or {}
    if not rows and not counted.get("rekey_started"):
        sheet.null_rest("F", NO_REKEY)
        return
    unknown = "the drone's counters are not there"
    for field, name in (
        ("rekey_attempts_count", "rekey_started"),
        ("rekey_success_count", "rekey_completed"),
        ("rekey_failure_count", "rekey_failed"),
        ("rekey_coalesced_count", "rekey_coalesced"),
    ):
        sheet.put("F", field, as_value(counted.get(name)), absent=unknown)
    done = [row for row in rows if row.get("result") == "completed"]
    walls = [(int(row["end_ns"]) - int(row["start_ns"])) / 1e6 for row in done]
    starts = [int(row["start_ns"]) for row in done]
    pauses = [(after - before) / 1e6 for before, after in pairwise(starts)]
    interval, duration = median(pauses), median(walls)
    none = "no rekey completed"
    sheet.put("F", "rekey_interval_ms", interval, n=len(pauses), absent="fewer than two rekeys completed")
    sheet.put("F", "rekey_duration_ms", duration, n=len(walls), absent=none)
    reasons = ", ".join(dict.fromkeys(str(row.get("reason")) for row in rows))
    sheet.put("F", "rekey_trigger_reason", reasons or None, absent="no rekey left an event")
    share = None if interval is None or duration is None else 100 * duration / (interval + duration)
    sheet.put(
        "F",
        "rekey_share_model_pct",
        share,
        n=len(walls),
        validity="model",
        absent=none,
        reason="Φ(R) = T/(R+T), the published model; it is no pause of the traffic",
    )
    _fill_blackout(sheet, facts.plane)


def _fill_blackout(sheet: Sheet, plane: DataPlane) -> None:
    ways = switch_rows(plane)
    absent = NO_LEDGER if ways is None else "no switch within the traffic window"
    found = [one for way in ways or [] for one in way]
    n = len(found)
    for field, name in (
        ("rekey_blackout_duration_ms", "added_ns"),
        ("rekey_gap_ms", "gap_ns"),
        ("rekey_send_gap_ms", "send_gap_ns"),
    ):
        worst = max((getattr(one, name) for one in found), default=None)
        sheet.put("F", field, None if worst is None else worst / 1e6, n=n, absent=absent)
    for name in ("late", "lost"):
        total = sum(getattr(one, name) for one in found) if found else None
        sheet.put("F", f"rekey_{name}_packets_count", total, n=n, absent=absent)
    seconds = plane.gate_s.get(TRAFFIC)
    # a direction of few datagrams skips epochs, so that both need not see each switch
    paused_ns = mean([sum(one.added_ns for one in way) for way in ways or [] if way])
    share = paused_ns / 1e7 / seconds if paused_ns is not None and seconds else None
    sheet.put("F", "rekey_blackout_share_pct", share, n=n, absent=absent)
