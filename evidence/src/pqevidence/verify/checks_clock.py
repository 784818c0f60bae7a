"""Clocks: within a host and a boot realtime and monotonic time keep their distance, and what an end stamped
lies inside the gate it is counted in."""

from __future__ import annotations

from statistics import median

from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import CellView
from pqevidence.record.raw import ROLES, SHIFTED, Json, played_by
from pqevidence.record.untimed import EMULATED_CPU, untimed_reasons

#: two readings of one stamp may be a preemption apart
APART_NS = 100_000_000
#: the most by which a clock that is being set runs fast or slow
SLEW = 500e-6
#: a vehicle's burst, a late tick of the gate
GATE_SLACK_NS = 250_000_000
#: what is still under way when both gates are shut: queues, and a link's delay
DRAIN_NS = 2_000_000_000
CONTROLLER = "controller"


def steady(cell: CellView, tally: Tally) -> None:
    """Events carry both clocks of their host: their distance is one within a cell, from cell to cell, and
    between hosts of one boot."""
    if any(event.get("event") == SHIFTED for event in cell.raw.events):
        return
    tally.see()
    known: dict[str, tuple[str, int]] = {}
    for role, stamps in _stamps(cell).items():
        host = cell.run.host(role)
        if not stamps or str(host.get("cpu_model")).startswith(EMULATED_CPU):
            continue
        middle = int(median(offset for _, offset in stamps))
        worst = max(stamps, key=lambda stamp: abs(stamp[1] - middle))
        apart = abs(worst[1] - middle)
        where = f"{cell.label} {role}"
        tally.require(
            apart <= APART_NS + SLEW * abs(worst[0] - stamps[0][0]),
            f"{where}: t_ns and mono_ns in events.ndjson move {apart / 1e6:.1f} ms apart within the cell",
        )
        boot = str(host.get("boot_id"))
        before = cell.bundle.clocks.setdefault((id(cell.run), role), (stamps[0][0], middle, cell.label))
        drift = abs(middle - before[1])
        tally.require(
            drift <= APART_NS + SLEW * abs(stamps[0][0] - before[0]),
            f"{where}: t_ns − mono_ns in events.ndjson is {drift / 1e9:.3f} s other than in {before[2]}, and "
            f"hosts/{role}.json has one boot",
        )
        if played_by(host) is None and host.get("os", "linux") == "linux":
            known[role] = (boot, middle)
    for role, (boot, offset) in known.items():
        for other, (same, theirs) in known.items():
            if role < other and boot == same and abs(offset - theirs) > APART_NS:
                tally.fail(
                    f"{cell.label}: clocks of {role} and {other} are "
                    f"{abs(offset - theirs) / 1e9:.3f} s apart "
                    f"(events.ndjson), and hosts/*.json give both boot id {boot}"
                )


def _stamps(cell: CellView) -> dict[str, list[tuple[int, int]]]:
    """(t_ns, t_ns − monotonic ns) of each event that has both, by host; the controller's readings of the
    processors carry seconds."""
    found: dict[str, list[tuple[int, int]]] = {}
    for event in cell.raw.events:
        host, t_ns = str(event.get("host")), event.get("t_ns")
        if not isinstance(t_ns, int):
            continue
        if host in ROLES and isinstance(event.get("mono_ns"), int):
            found.setdefault(host, []).append((t_ns, t_ns - int(event["mono_ns"])))
        elif host == CONTROLLER and isinstance(event.get("mono_s"), float):
            found.setdefault(host, []).append((t_ns, t_ns - round(event["mono_s"] * 1e9)))
    return found


def gates(cell: CellView, tally: Tally) -> None:
    """Each end sent only while its own gate was open, and received nothing before a gate opened or long after
    both were shut: the window of a ledger's row is the one in which it happened."""
    if untimed_reasons(cell.run.hosts) or any(event.get("event") == SHIFTED for event in cell.raw.events):
        return
    for role, ledger in sorted(cell.raw.ledgers.items()):
        for window, report in (cell.raw.traffic or {}).items():
            own, both = _gate(report, role), [gate for r in ROLES if (gate := _gate(report, r))]
            if own is None or not both:
                continue
            tally.see()
            sent, got = (rows.of_window(window, rows.t_in_ns) for rows in (ledger.tx, ledger.rx))
            opened, closed = min(gate[0] for gate in both), max(gate[1] for gate in both)
            for name, times, first, last in (
                ("tx", sent, own[0] - GATE_SLACK_NS, own[1] + GATE_SLACK_NS),
                ("rx", got, opened - GATE_SLACK_NS, closed + DRAIN_NS),
            ):
                if not times or first <= min(times) <= max(times) <= last:
                    continue
                outside = [t for t in times if not first <= t <= last]
                if not (cell.impaired and name == "rx"):
                    by_s = max(first - min(outside), max(outside) - last) / 1e9
                    tally.fail(
                        f"{cell.label} {window}: {len(outside)} {name} rows of ledger.{role}.csv lie up to "
                        f"{by_s:.2f} s outside of the gates in traffic.json"
                    )
    tally.unit = "ledgers"


def _gate(report: Json, role: str) -> tuple[int, int] | None:
    side = report.get(role) or {}
    opened, closed = side.get("open_ns"), side.get("close_ns")
    return (int(opened), int(closed)) if isinstance(opened, int) and isinstance(closed, int) else None
