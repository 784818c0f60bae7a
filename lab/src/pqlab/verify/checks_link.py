"""The link router: in the path where the condition says so, and doing what it says."""

from __future__ import annotations

from functools import lru_cache

from pqlab.record.link import link_problems, sides_of
from pqlab.record.link_ledger import LINK_LEDGER, read_link_ledger, replay_problems, trace_path
from pqlab.scenario.conditions import routed, traces_of
from pqlab.verify.result import Tally
from pqlab.verify.view import CellView
from pqlink.errors import LinkError
from pqlink.trace import Trace, parse_trace


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


def replayed(cell: CellView, tally: Tally) -> None:
    """The trace is the one that the scenario names; packet by packet, it gives what the router did."""
    blocks = traces_of(cell.run.condition(str(cell.plan["condition"])))
    if not blocks:
        return
    tally.see()
    traces: dict[str, Trace] = {}
    for way, block in blocks.items():
        path = trace_path(cell.bundle.data, str(block["sha256"]))
        try:
            traces[way] = _trace(path.read_bytes())
        except (OSError, LinkError) as error:
            tally.fail(f"{cell.label}: the {way} trace {path.name[:12]} cannot be read: {error}")
            return
        if traces[way].sha256 != block["sha256"]:
            tally.fail(
                f"{cell.label}: the {way} trace {path.name[:12]} is another file than the scenario names"
            )
            return
    ledger, link = cell.folder / LINK_LEDGER, cell.raw.link
    if link is None or not ledger.is_file():
        tally.fail(f"{cell.label}: there is no {LINK_LEDGER}: nothing shows that the trace was replayed")
        return
    seed = int(cell.plan["seed"])
    tally.require(link["seed"] == seed, f"{cell.label}: link.json says seed {link['seed']}, the plan {seed}")
    sides = sides_of(cell.run.condition(str(cell.plan["condition"])))
    for problem in replay_problems(read_link_ledger(ledger), sides, traces, seed, link["router"]):
        tally.fail(f"{cell.label}: {problem}")


@lru_cache(maxsize=4)
def _trace(content: bytes) -> Trace:
    """Cells of one condition share their traces."""
    return parse_trace(content)
