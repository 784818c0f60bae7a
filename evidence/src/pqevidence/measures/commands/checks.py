"""What the ground says that it asked and heard, against plan, vehicle and tunnel."""

from __future__ import annotations

from collections.abc import Mapping

from pqbase.documents import counts_of, rows_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.measures.commands.record import COMMANDS, Asked, account_of, asked_of
from pqevidence.record.dataplane import TRAFFIC
from pqevidence.record.visitors import PROBE
from pqevidence.scenario.conditions import workload_of
from pqsitl.steps import CUT, NOT_DUE, NS, dues, steps_of, unanswered

#: a thread that looks at its clock 10 times a second at least, and may be late
_LATE_NS = 2 * NS
#: frames in flight when one of the gates closed
_FLYING_COUNT = 5


def planned(cell: CellView, tally: Tally) -> None:
    """One row an exchange that scenario and seed give, due when they say; its moments in order, an answer
    within its limit, and where there is none no result and a reason."""
    steps_raw, account = workload_of(cell.run.scenario), account_of(cell.raw.traffic)
    if not steps_raw:
        tally.require(account is None, f"{cell.label}: a workload that the scenario does not ask for")
        return
    tally.see()
    asked = asked_of(cell.raw.traffic)
    if account is None or asked is None:
        tally.fail(f"{cell.label}: the ground left no account of its workload (traffic.json)")
        return
    steps, seed = steps_of(steps_raw), int(cell.plan["seed"])
    tally.require(
        account.get("seed") == seed, f"{cell.label}: workload of seed {account.get('seed')}, not {seed}"
    )
    begun_ns = account.get("begun_ns")
    if begun_ns is None:
        tally.fail(f"{cell.label}: the ground never heard the vehicle, so that nothing was asked")
        return
    due = {(one.step, one.number): one.at_ns + int(begun_ns) for one in dues(steps, seed)}
    told = {(one.step, one.number): one.due_ns for one in asked}
    tally.require(
        len(told) == len(asked) and told == due, f"{cell.label}: the rows are not those of the plan"
    )
    for one in asked:
        step = steps[one.step] if 0 <= one.step < len(steps) else None
        if step is None or step.kind != one.kind:
            tally.fail(f"{cell.label}: row {one.step}/{one.number} is of kind {one.kind}")
            continue
        if why := _amiss(one, step.limit_s):
            tally.fail(f"{cell.label}: step {one.step}, number {one.number} ({one.kind}): {why}")


def _amiss(one: Asked, limit_s: float) -> str | None:
    if one.sent_ns is None:
        empty = one.acknowledged_ns is None and one.result is None and one.retries_count == 0
        return (
            None if empty and one.reason == NOT_DUE else "never sent, and yet it has an answer or no reason"
        )
    if one.sent_ns < one.due_ns:
        return "sent before it was due"
    if one.acknowledged_ns is None:
        known = one.reason in (unanswered(limit_s), CUT)
        return None if known and one.result is None else "no acknowledgement, and a result or no reason"
    if one.result is None or one.reason is not None:
        return "acknowledged, without a result or with a reason why not"
    took_ns = one.acknowledged_ns - one.sent_ns
    if not 0 < took_ns <= limit_s * NS + _LATE_NS:
        return f"acknowledged {took_ns / 1e6:.3f} ms after it was sent, its limit is {limit_s:g} s"
    return None


def witnessed(cell: CellView, tally: Tally) -> None:
    """The vehicle counted what came up and what it answered; the tunnel carried at least as much. On an
    unimpaired link both ends' counts are one number, but for what was under way when a gate closed."""
    account = account_of(cell.raw.traffic)
    if not workload_of(cell.run.scenario) or account is None:
        return
    tally.see()
    window = (cell.raw.traffic or {}).get(TRAFFIC) or {}
    report = (window.get("drone") or {}).get("source_report") or {}
    came = _heard_by_vehicle(report)
    answered = (report.get("beside") or {}).get("kinds")
    if came is None or answered is None:
        tally.fail(f"{cell.label}: the vehicle left no count of what it heard and answered (traffic.json)")
        return
    sent = counts_of(account, "sent", {})
    heard = counts_of(account, "heard", {})
    _same(cell, tally, "sent by the ground, {} heard by the vehicle", sent, {k: came.get(k, 0) for k in sent})
    _same(
        cell,
        tally,
        "answered by the vehicle, {} heard by the ground",
        {k: answered.get(k, 0) for k in heard},
        heard,
    )
    asked = asked_of(cell.raw.traffic) or []
    rows = sum(1 + one.retries_count for one in asked if one.kind in COMMANDS and one.sent_ns is not None)
    frames = sum(count for kind, count in sent.items() if kind.startswith("COMMAND_LONG "))
    tally.require(
        rows == frames, f"{cell.label}: rows of {rows} sendings of commands, {frames} frames were sent"
    )
    acknowledged = sum(one.kind in COMMANDS and one.acknowledged_ns is not None for one in asked)
    acks = heard.get("COMMAND_ACK", 0)
    tally.require(
        acknowledged <= acks,
        f"{cell.label}: {acknowledged} commands acknowledged, {acks} acknowledgements came",
    )
    beside = report["beside"]
    totals = {int(beside["count"]), sum(map(int, answered.values())), sum(map(int, beside["sizes"].values()))}
    tally.require(
        len(totals) == 1, f"{cell.label}: the vehicle's counts beside its mix differ: {sorted(totals)}"
    )
    for role, counts in (("gcs", sent), ("drone", answered)):
        carried = int(cell.windows(role)[TRAFFIC]["tx_data"])
        total = sum(int(count) for count in counts.values())
        fits = total <= carried + _FLYING_COUNT
        tally.require(
            fits, f"{cell.label}: {total} frames of the workload at the {role}, its tunnel sent {carried}"
        )


def _heard_by_vehicle(report: Mapping[str, object]) -> dict[str, int] | None:
    """Kind → frames that the vehicle heard from the station; None where it has no account at all."""
    if report.get("uplink") is None:
        return None
    found: dict[str, int] = {}
    for row in rows_of(report, "uplink", []):
        if (row.get("system"), row.get("component")) == PROBE:
            found |= counts_of(row, "frames")
    return found


def _same(cell: CellView, tally: Tally, words: str, out: Mapping[str, int], back: Mapping[str, int]) -> None:
    """Nobody hears more than was sent; unimpaired, nobody hears less, but for what flew at the end."""
    for kind, count in sorted(out.items()):
        got = int(back.get(kind, 0))
        whole = got <= count and (cell.impaired or count - got <= _FLYING_COUNT)
        tally.require(whole, f"{cell.label}: {kind}: {count} {words.format(got)}")
