"""Observers that stood still where the condition leaves them out, and were awake elsewhere."""

from __future__ import annotations

from pqbase.documents import Json, part_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import ROLES
from pqevidence.scenario.conditions import observers_vary, without

FILE = "observers.json"
VIEW = ("telegraf", "influxdb")
#: what a stopped process may still be charged: the tick in which it was stopped
STILL_NS = 2_000_000


def still(cell: CellView, tally: Tally) -> None:
    """The kernel's accounts around the traffic window: who was left out used nothing, who was not used
    something, nobody more than all cores have. Both readings frame the window."""
    document = cell.raw.observers
    condition = cell.run.condition(str(cell.plan["condition"]))
    if not observers_vary(cell.run.scenario) or not cell.run.scenario.get("traffic"):
        tally.require(document is None, f"{cell.label}: {FILE}, and every observer was on in this campaign")
        return
    tally.see()
    if document is None:
        tally.fail(f"{cell.label}: there is no {FILE}")
        return
    took_ns = int(document["after"]["t_ns"]) - int(document["before"]["t_ns"])
    gate = cell.plane.gate_ns.get("traffic")
    framed = gate is None or took_ns >= gate[1] - gate[0]
    tally.require(framed, f"{cell.label}: {FILE} spans {took_ns / 1e6:.0f} ms, less than its window")
    left_out = without(condition)
    for end in ROLES:
        used = _used(document, "ends", end, "sampler_cpu_ns")
        _judge(cell, tally, f"{end}'s sampler", used, took_ns, stands="sampler" in left_out)
        tunnel = _used(document, "ends", end, "tunnel_cpu_ns")
        _judge(cell, tally, f"{end}'s tunnel", tunnel, took_ns, stands=False)
    for name in VIEW:
        used = _used(document, "services", name, "cpu_ns")
        _judge(cell, tally, name, used, took_ns, stands="telegraf" in left_out)
    if "ledger" in left_out:
        tally.require(not cell.raw.ledgers, f"{cell.label}: a ledger where the condition keeps none")


def _judge(cell: CellView, tally: Tally, who: str, used: int | None, took_ns: int, *, stands: bool) -> None:
    if used is None:
        reason = (cell.raw.observers or {}).get("after", {}).get("reason") or "no reason given"
        tally.warn(f"{cell.label}: {who}: its account could not be read: {reason}")
        return
    text = f"{cell.label}: {who} used {used / 1e6:.1f} ms of {took_ns / 1e6:.0f} ms"
    if stands:
        tally.require(0 <= used <= STILL_NS, f"{text}, and was to stand still")
    else:
        cores = _cores(cell)
        tally.require(0 < used <= took_ns * cores, f"{text}, on {cores} cores")


def _cores(cell: CellView) -> int:
    return whole_of(cell.run.host("controller"), "cpu_count", 1024)


_EDGES = ("before", "after")


def _used(document: Json, *path: str) -> int | None:
    before, after = (_read(part_of(document, edge) if document[edge] else {}, path) for edge in _EDGES)
    return None if before is None or after is None else after - before


def _read(part: Json, path: tuple[str, ...]) -> int | None:
    *inside, last = path
    for key in inside:
        part = part_of(part, key, {})
    return None if part.get(last) is None else whole_of(part, last)
