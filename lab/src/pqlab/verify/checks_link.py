"""The link router: in the path where the condition says so, and doing what it says."""

from __future__ import annotations

from pqlab.record.link import link_problems, sides_of
from pqlab.scenario.conditions import routed
from pqlab.verify.result import Tally
from pqlab.verify.view import CellView


def achieved(cell: CellView, tally: Tally) -> None:
    """Settings, probes and counts of link.json fit the condition; no datagram was faster than its link."""
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not routed(condition):
        tally.require(cell.raw.link is None, f"{cell.label}: link.json in a cell of the direct path")
        return
    for problem in link_problems(cell.raw, condition):
        tally.fail(f"{cell.label}: {problem}")
    side = sides_of(condition)["up"]
    changed = any(event.get("kind") == "link" for event in condition.get("events") or [])
    if changed or side.reorder_pct:
        return
    least_ms = side.delay_ms - side.jitter_ms * side.reach
    p50_ms = cell.value("H", "one_way_latency_p50_ms")
    if p50_ms is not None:
        tally.see(p50_ms)
        tally.require(
            p50_ms >= least_ms,
            f"{cell.label}: half of the datagrams took {p50_ms} ms, the link {least_ms:g} or more",
        )
