"""One cell's raw files → its record. Deterministic: the same files give the same record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pqbase.documents import Json, number_of, numbers_of, part_of, rows_of
from pqevidence.measures import MEASURES
from pqevidence.record.attack import ATTACKER_LOST
from pqevidence.record.beside import without_beside
from pqevidence.record.context import (
    fill_control,
    fill_identity,
    fill_lifecycle,
    fill_mavlink,
    fill_run_context,
    suite_of,
)
from pqevidence.record.dataplane import (
    BULK_PREFIX,
    TRAFFIC,
    DataPlane,
    data_plane,
    window_counter,
    window_told,
)
from pqevidence.record.facts import Facts
from pqevidence.record.faults import (
    failed_redials,
    killed_roles,
    killed_unasked,
    power_cycles,
    silence,
    stalled_ns,
)
from pqevidence.record.fleet import FLEET_LOST, crowded
from pqevidence.record.handshake import (
    HANDSHAKE_WINDOW,
    POOLED_WINDOW,
    Shakes,
    both_pooled,
    shakes_of,
    worst_coverage_pct,
)
from pqevidence.record.neighbours import Use, foreign_use
from pqevidence.record.planes import fill_planes, plane_problems
from pqevidence.record.quiet import LEAST_WINDOW_S, Quiet, judge_handshakes, judge_traffic, mark
from pqevidence.record.raw import (
    ROLES,
    RawCell,
    RawDataError,
    RawRun,
    load_cell,
    load_run,
)
from pqevidence.record.sheet import Sheet
from pqevidence.record.system import (
    Samples,
    Telemetry,
    sample_account,
    tick_hz,
    within,
)
from pqevidence.record.untimed import untimed_reasons
from pqevidence.record.verdict import Direction, Evidence, Verdict, decide
from pqevidence.record.visitors import visitors
from pqevidence.record.waiting import tunnel_wait_pct
from pqevidence.scenario.conditions import impairs, keeps_ledger, without
from pqsitl.contract import check_traffic
from pqsitl.errors import SitlError
from pqtelemetry.errors import TelemetryError

SCHEMA_VERSION = "pqlab/record/v1"
STOPS = ("unsupported", "not-run")
OPTIONAL_FILES = ("traffic.json",)
#: codes of an agent's answer when not the tunnel but its traffic service, or the vehicle in it, gave up
SOURCE_LOST = ("not_ready", "process_died", "traffic_unreachable", "traffic_timeout")
#: … and when attacker or fleet did: each is weighed as what it is
EXCUSED = (*ATTACKER_LOST, *SOURCE_LOST, *FLEET_LOST)


def load_context(data_dir: Path) -> RawRun:
    """The run-level facts that every record shares, from the files under `data/`."""
    return load_run(data_dir)


def build_record(cell_dir: Path, plan_cell: Mapping[str, object], context: RawRun) -> Json:
    """The record of one cell (schema record.schema.json).

    cell_dir: data/cells/<cell_id>; plan_cell: its row of plan.json; context: load_context(data).
    Raises RawDataError for a raw file that is damaged. A file that is absent leaves nulls and shows in the
    verdict.
    """
    return record_from_raw(load_cell(cell_dir), plan_cell, context)


def record_from_raw(
    cell: RawCell, plan_cell: Mapping[str, object], context: RawRun, plane: DataPlane | None = None
) -> Json:
    """The same, from raw files that are loaded. plane: their ledgers, where these are joined already."""
    facts = _facts(cell, dict(plan_cell), context, plane)
    quiet = _quiet(facts)
    verdict = decide(_evidence(facts, quiet))
    plan, wall = facts.plan, facts.wall_ns
    active_ns = sum(int(w["end_ns"]) - int(w["start_ns"]) for w in facts.windows)
    return {
        "schema_version": SCHEMA_VERSION,
        "cell_id": str(plan["cell_id"]),
        "suite_id": str(plan["suite_id"]),
        "condition": str(plan["condition"]),
        "repetition": int(plan["repetition"]),
        "position": int(plan["position"]),
        "ring": str(context.scenario.get("ring", "lab")),
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "attempts": 0 if verdict.verdict in STOPS else cell.attempts,
        "windows": facts.windows,
        "wall": {
            "start_ns": wall[0] if wall else None,
            "end_ns": wall[1] if wall else None,
            "overhead_s": round((wall[1] - wall[0] - active_ns) / 1e9, 6) if wall else None,
        },
        "categories": _filled(facts, quiet, verdict).categories(),
    }


def _facts(cell: RawCell, plan: Json, context: RawRun, plane: DataPlane | None) -> Facts:
    """All that is read of the raw files once."""
    condition = context.condition(str(plan["condition"]))
    wall = _wall(cell)
    windows = _windows(cell)
    suite = suite_of(str(plan["suite_id"]))
    plane = data_plane(cell, suite) if plane is None else plane
    shakes = shakes_of(cell, context.scenario, due=suite is None or not suite.is_plain)
    telemetry = _telemetry(cell, wall)
    samples = {}
    if wall:
        rate_hz = tick_hz(context.scenario)
        samples = {
            role: _sample_account(cell, role, told, condition, wall, rate_hz)
            for role, told in telemetry.items()
        }
    return Facts(
        cell=cell,
        context=context,
        plan=plan,
        condition=condition,
        suite=suite,
        wall_ns=wall,
        windows=windows,
        shakes=shakes,
        plane=plane,
        telemetry=telemetry,
        samples=samples,
        killed=killed_roles(cell.events, condition),
        span_ns=plane.gate_ns.get(TRAFFIC) or wall or (0, 0),
        span_name="the traffic window" if TRAFFIC in plane.gate_ns else "the cell",
    )


def _evidence(facts: Facts, quiet: Quiet) -> Evidence:
    """What the verdict rests on."""
    cell, context, plane, shakes = facts.cell, facts.context, facts.plane, facts.shakes
    errors = [e for e in cell.events if e.get("event") == "error"]
    vain = failed_redials(cell, shakes.redialled_count)
    opened_ns = plane.gate_ns.get(TRAFFIC, (None, None))[0]
    ways = (plane.down, plane.up) if plane.down and plane.up else ()
    return Evidence(
        stopped=_stopped(cell),
        errors=tuple(_reason(e) for e in errors if e.get("code") not in EXCUSED),
        cycled=tuple(power_cycles(cell.events, facts.condition)),
        killed=tuple(killed_unasked(cell.events, facts.condition)),
        source=tuple(_source_problems(cell, errors)),
        missing=tuple(_missing(facts)),
        handshakes_due=shakes.due,
        completed=shakes.completed,
        failed=max(0, (shakes.failed or 0) - vain),
        silence=None if facts.killed else silence(cell, vain, opened_ns),
        min_count=shakes.least,
        traced=len(shakes.cold),
        coverage_pct=_coverage(shakes),
        pooled=None if shakes.pooled_due is None else len(both_pooled(shakes.pooled)),
        pooled_due=min(shakes.least, shakes.pooled_due or 0),
        # what a killed end counted until then is no account of the window
        directions=() if facts.killed else tuple(_directions(cell, plane)),
        windows_due=tuple(_windows_due(facts)),
        windows_seen=tuple(str(w["name"]) for w in facts.windows),
        duplicates=sum(way.duplicates for way in ways),
        ghosts=sum(way.ghosts for way in ways),
        resized=sum(way.total("resized") for way in ways),
        sessions_s={} if "drone" in facts.killed else _sessions(facts),
        contract=tuple(_contract(cell, context, plane)),
        samples={role: (account.expected, account.stored) for role, account in facts.samples.items()},
        impaired=impairs(facts.condition),
        rekeys=_rekeys(cell, facts.condition),
        planes=tuple(plane_problems(context, cell)),
        busy=(*quiet.findings, *crowded(facts.cell.folder)),
        **_problems(facts),
    )


def _filled(facts: Facts, quiet: Quiet, verdict: Verdict) -> Sheet:
    """Every field of the catalogue."""
    cell, context, plane = facts.cell, facts.context, facts.plane
    sheet = Sheet()
    fill_run_context(sheet, facts.plan, context, cell, facts.wall_ns)
    fill_planes(sheet, context, cell)
    fill_identity(sheet, facts.suite)
    fill_lifecycle(sheet, cell, facts.wall_ns, facts.windows, plane)
    for measure in MEASURES:
        if measure.fill is not None:
            measure.fill(sheet, facts)
    fill_mavlink(sheet, cell, plane, facts.wall_ns)
    fill_control(sheet, facts.plan, context)
    _fill_validation(sheet, facts, verdict)
    mark(sheet, quiet)
    return sheet


def _problems(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Evidence by name, of every measure that has something to say against a cell."""
    return {name: tuple(found(facts)) for measure in MEASURES for name, found in measure.problems.items()}


def _wall(cell: RawCell) -> tuple[int, int] | None:
    times = [int(e["t_ns"]) for e in cell.events if e.get("host") == "controller"]
    return (min(times), max(times)) if times else None


def _sampled_until(cell: RawCell, role: str, condition: Mapping[str, object], end_ns: int) -> int:
    """When this end stopped: its samples after that belong to no cell. What remains until the cell's end is
    the way of its files to the controller, which takes seconds from a slow host. Where the condition leaves
    the sampler out: when it was told to stand still."""
    last = "sensor_stall" if "sampler" in without(condition) else "stop"
    times = [int(e["t_ns"]) for e in cell.events if e.get("host") == role and e.get("event") == last]
    return min(max(times, default=end_ns), end_ns)


def _sample_account(
    cell: RawCell, role: str, told: Telemetry, condition: Json, wall: tuple[int, int], rate_hz: float
) -> Samples:
    """Ticks due from the cell's begin until this end stopped, less those of a stall that was asked for."""
    end_ns = _sampled_until(cell, role, condition, wall[1])
    still_ns = stalled_ns(cell.events, condition, role, (wall[0], end_ns))
    return sample_account(told, wall[0], end_ns - still_ns, rate_hz)


def _windows(cell: RawCell) -> list[Json]:
    """Labelled windows by the controller's clock in their order; one that never ended is left out."""
    opened: dict[str, int] = {}
    windows: list[Json] = []
    for event in cell.events:
        if event.get("host") != "controller" or not event.get("window"):
            continue
        name = str(event["window"])
        if event.get("event") == "window_start":
            opened[name] = int(event["t_ns"])
        elif event.get("event") == "window_end" and name in opened:
            windows.append({"name": name, "start_ns": opened.pop(name), "end_ns": int(event["t_ns"])})
    return windows


def _telemetry(cell: RawCell, wall: tuple[int, int] | None) -> dict[str, Telemetry]:
    parsed: dict[str, Telemetry] = {}
    for role in cell.telemetry:
        try:
            parsed[role] = within(cell.points(role), *(wall or (0, 0)))
        except TelemetryError as error:
            raise RawDataError(cell.folder / f"telemetry.{role}.lp", str(error)) from error
    return parsed


def _quiet(facts: Facts) -> Quiet:
    """What a busy machine did to this cell's times; nothing where no time is a claim anyway."""
    cell, context, gate_ns = facts.cell, facts.context, facts.plane.gate_ns.get(TRAFFIC)
    if untimed_reasons(context.hosts):
        return Quiet()
    cold = facts.shakes.cold
    judged = judge_handshakes(cold, _use_of(cell, HANDSHAKE_WINDOW), one_machine=context.one_clock)
    if gate_ns is None:
        return judged
    waits = {role: tunnel_wait_pct(facts.telemetry.get(role), gate_ns) for role in ROLES}
    return replace(judged, traffic=judge_traffic(waits, _use_of(cell, TRAFFIC)))


def _use_of(cell: RawCell, window: str) -> Use | None:
    """What neighbours used in that window, or, where it is short, from the first window to the last."""
    use = foreign_use(cell.events, window)[0]
    if use is None or use.window_s >= LEAST_WINDOW_S:
        return use
    return foreign_use(cell.events, HANDSHAKE_WINDOW, TRAFFIC)[0]


def _reason(event: Json) -> str:
    return str(event.get("reason") or "no reason given")


def _stopped(cell: RawCell) -> tuple[str, str] | None:
    for event in cell.events:
        if event.get("host") == "controller" and event.get("event") in STOPS:
            return str(event["event"]), str(event.get("reason") or "no reason given")
    return None if cell.events else ("not-run", "the cell left no event")


def _missing(facts: Facts) -> list[str]:
    """Raw files that are due and absent; a scenario without traffic or ledger does not owe theirs, nor does
    an end that was killed on purpose."""
    cell, context = facts.cell, facts.context
    no_traffic = not context.scenario.get("traffic") and not context.scenario.get("bulk")
    exempt = set(OPTIONAL_FILES) if no_traffic else set()
    if no_traffic or not keeps_ledger(context.scenario, facts.condition):
        exempt |= {f"ledger.{role}.csv" for role in ROLES}
    exempt |= {name for role in facts.killed for name in (f"ledger.{role}.csv", f"telemetry.{role}.lp")}
    return [name for name in cell.missing if name not in exempt]


def _coverage(shakes: Shakes) -> dict[str, float | None]:
    """The worst coverage by host; pooled handshakes, where asked for, as hosts of their own."""
    told = {role: worst_coverage_pct(shakes.cold, role) for role in ROLES}
    if shakes.pooled_due is not None:
        used = both_pooled(shakes.pooled)
        told |= {f"pooled_{role}": worst_coverage_pct(used, role) for role in ROLES}
    return told


def _windows_due(facts: Facts) -> list[str]:
    scenario, shakes = facts.context.scenario, facts.shakes
    due = [HANDSHAKE_WINDOW] if shakes.due else []
    if shakes.pooled_due is not None:
        due.append(POOLED_WINDOW)
    if scenario.get("traffic"):
        due.append(TRAFFIC)
    return [*due, *_rungs(scenario)]


def _rungs(scenario: Json) -> list[str]:
    """Windows of bulk that the scenario asks for."""
    bulk = part_of(scenario, "bulk", {})
    return [f"{BULK_PREFIX}{rate}" for rate in numbers_of(bulk, "rates_pps")] if "rates_pps" in bulk else []


def _rekeys(cell: RawCell, condition: Json) -> int | None:
    """Rekeys completed where the condition asks for some; None elsewhere, and while unknown."""
    asks = condition.get("rekey", "none") != "none"
    asks = asks or any(e.get("kind") in ("rekey", "request_rekey") for e in rows_of(condition, "events", []))
    drone = (cell.counters or {}).get("drone")
    if not asks or drone is None:
        return None
    return int(drone.get("rekey_completed", 0))


def _directions(cell: RawCell, plane: DataPlane) -> list[Direction]:
    """Both directions of every traffic and bulk window that both ends counted."""
    if cell.counters is None:
        return []
    apart = (HANDSHAKE_WINDOW, POOLED_WINDOW)
    names = [name for name in cell.counters.get("drone", {}).get("windows", {}) if name not in apart]
    rows = []
    for window in names:
        for label, sender, receiver in (("down", "drone", "gcs"), ("up", "gcs", "drone")):
            tx = window_counter(cell.counters, sender, window, "tx_data")
            rx = window_counter(cell.counters, receiver, window, "rx_ok")
            if tx is None or rx is None:
                continue
            rows.append(
                Direction(
                    window=window,
                    name=label,
                    tx_count=tx,
                    rx_count=rx,
                    digest_tx=str(window_told(cell.counters, sender, window, "digest_tx")),
                    digest_rx=str(window_told(cell.counters, receiver, window, "digest_rx")),
                    ledger_tx=plane.tx[sender].count_by_window().get(window, 0) if plane.tx else None,
                    ledger_rx=plane.rx[receiver].count_by_window().get(window, 0) if plane.rx else None,
                )
            )
    return rows


def _sessions(facts: Facts) -> dict[str, tuple[float, float | None]]:
    context, plane = facts.context, facts.plane
    due: dict[str, tuple[float, float | None]] = {}
    seen = {str(w["name"]) for w in facts.windows}
    traffic, bulk = (part_of(context.scenario, name, {}) for name in ("traffic", "bulk"))
    if traffic and TRAFFIC in seen:
        due[TRAFFIC] = (number_of(traffic, "session_s"), plane.gate_s.get(TRAFFIC))
    for window in _rungs(context.scenario):
        if window in seen:
            due[window] = (number_of(bulk, "step_s"), plane.gate_s.get(window))
    return due


def _contract(cell: RawCell, context: RawRun, plane: DataPlane) -> list[str]:
    """What the traffic contract finds in the traffic window, at the drone's socket (where traffic enters)."""
    traffic, seconds = part_of(context.scenario, "traffic", {}), plane.gate_s.get(TRAFFIC)
    count = window_counter(cell.counters, "drone", TRAFFIC, "tx_data")
    if not traffic or seconds is None or count is None:
        return []
    window = (cell.traffic or {}).get(TRAFFIC) or {}
    if "drone" in plane.tx and plane.overhead_bytes is not None:
        column = plane.tx["drone"]
        counted = Counter(column.of_window(TRAFFIC, column.size_bytes))
        sizes = {sealed - plane.overhead_bytes: number for sealed, number in counted.items()}
    else:
        reported = ((window.get("drone") or {}).get("source_report") or {}).get("sent", {}).get("sizes") or {}
        sizes = {int(size): int(number) for size, number in reported.items()}
    profile = str(traffic.get("profile") or "intervals_320hz")
    own_count, sizes = without_beside(count, sizes, window)
    try:
        result = check_traffic(
            count=own_count,
            duration_s=seconds,
            nominal_hz=number_of(traffic, "rate_hz"),
            sizes=sizes,
            profile=profile,
            uplink=(window.get("gcs") or {}).get("source") == "uplink",
        )
    except SitlError as error:
        return [str(error)]
    return [f"{check.name}: {check.detail}" for check in result.checks if not check.ok]


def _source_problems(cell: RawCell, errors: list[Json]) -> list[str]:
    """Why a source of traffic gave up within the cell: it is not the tunnel's fault, and no measurement."""
    found = [_reason(event) for event in errors if event.get("code") in SOURCE_LOST]
    for name, window in (cell.traffic or {}).items():
        for role in ROLES:
            report = (window.get(role) or {}).get("source_report") or {}
            if report.get("error"):
                found.append(f"{name}, {role}: {report['error']}")
        found += [f"{name}: {told}" for visitor in visitors(window) if (told := visitor.orders_told())]
    return found


def _fill_validation(sheet: Sheet, facts: Facts, verdict: Verdict) -> None:
    """Category R."""
    _fill_samples(sheet, facts)
    completed, failed = facts.shakes.completed, facts.shakes.failed
    started = (completed or 0) + (failed or 0)
    share = 100 * (completed or 0) / started if started else None
    sheet.put("R", "handshake_success_pct", share, n=started, absent="no handshake was started")
    sheet.put("R", "verdict", verdict.verdict)
    told: dict[str, str] = {}
    for finding in verdict.findings:
        told[finding.name] = "; ".join(filter(None, [told.get(finding.name), finding.observed]))
    findings: Json = {**told}
    sheet.put("R", "verdict_findings", findings)


def _fill_samples(sheet: Sheet, facts: Facts) -> None:
    """Of category R: ticks of the drone's sampler, due and stored."""
    none = "no telemetry file of the drone"
    drone = facts.samples.get("drone")
    sheet.put("R", "expected_samples_count", drone.expected if drone else None, absent=none)
    sheet.put("R", "collected_samples_count", drone.stored if drone else None, absent=none)
    sheet.put("R", "lost_samples_count", drone.lost if drone else None, absent=none)
    late = (
        facts.telemetry["drone"].increase("pq_sampler", "late_count") if "drone" in facts.telemetry else None
    )
    sheet.put("R", "late_samples_count", late, absent=none)
