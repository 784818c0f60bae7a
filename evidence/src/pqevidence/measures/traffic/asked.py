"""What a window carried and how, against the scenario that asked for it and the agents that opened it."""

from __future__ import annotations

from collections.abc import Iterable

from pqbase.documents import part_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.dataplane import TRAFFIC
from pqevidence.record.raw import ROLES, Json

#: between a gate and the word of it in the events a thread may be taken off its processor
GATE_NS = 250_000_000
BULK = "bulk-"


def asked(cell: CellView, tally: Tally) -> None:
    """Each window was of the source, mix, rate, size and route that the scenario asks for; gates and routes
    in traffic.json are those that the agents told in their events, where nothing happened to an agent."""
    # an end that is killed or paused, or whose clock is moved, may tell of a gate twice or at another moment
    happens = cell.run.condition(str(cell.plan["condition"])).get("events")
    for window, report in sorted((cell.raw.traffic or {}).items()):
        tally.see()
        for name, told_, due in _of_scenario(cell, window, report):
            tally.require(
                told_ == due,
                f"{cell.label} {window}: {name} {told_} in traffic.json, scenario.effective.yml has {due}",
            )
        if not happens:
            for problem in _gates(cell, window, report):
                tally.fail(f"{cell.label} {window}: {problem}")
    tally.unit = "windows"


def _of_scenario(cell: CellView, window: str, report: Json) -> Iterable[tuple[str, object, object]]:
    """(what, as traffic.json has it, as the scenario has it) of what both tell."""
    scenario, spec = cell.run.scenario, report.get("spec") or {}
    if window.startswith(BULK):
        bulk = part_of(scenario, "bulk", {})
        known: Json = {
            "source": "bulk",
            "rate_hz": float(window.removeprefix(BULK)),
            "size_bytes": bulk.get("size_bytes"),
        }
        route: object = "direct"
    elif window == TRAFFIC:
        known = part_of(scenario, "traffic", {})
        route = known.get("route")
    else:
        return
    yield from ((name, spec[name], due) for name, due in known.items() if name in spec and due is not None)
    if route is not None:
        yield "route", report.get("route"), route


def _gates(cell: CellView, window: str, report: Json) -> Iterable[str]:
    """What is wrong with the gates of a window, by the agents' own events, where these tell of them."""
    for event in cell.raw.events:
        name, role = event.get("event"), event.get("host")
        if event.get("window") != window or role not in ROLES or name not in ("gate_open", "gate_close"):
            continue
        gate = (report.get(role) or {}).get("open_ns" if name == "gate_open" else "close_ns")
        told_ns, route = int(event["t_ns"]), event.get("route", report.get("route"))
        if isinstance(gate, int) and abs(told_ns - gate) > GATE_NS:
            yield (
                f"{name} of the {role} at {told_ns} in events.ndjson, {abs(told_ns - gate) / 1e9:.3f} s from "
                f"{gate} in traffic.json"
            )
        if route != report.get("route"):
            yield f"route {route} of the {role} in events.ndjson, {report.get('route')} in traffic.json"
