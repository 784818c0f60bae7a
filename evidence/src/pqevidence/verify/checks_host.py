"""Hosts, builds, samplers and the view: who measured, with what, and whether all of it was kept."""

from __future__ import annotations

from collections import Counter

from pqbase.documents import part_of, rows_of
from pqevidence.builds import comparable, same_machine
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.record.context import suite_of
from pqevidence.record.raw import PLACE, Json, RawRun, kernels, played_by
from pqevidence.record.rings import weakest
from pqevidence.record.untimed import EMULATED_CPU

ROLES = ("drone", "gcs")


def unsupported(cell: CellView, tally: Tally) -> None:
    """`unsupported` exactly where at least one host's probe says so: it is not another word for failed."""
    missing = []
    for role in ROLES:
        suites = part_of(cell.run.hosts[role], "suites", {})
        status = part_of(suites, str(cell.plan["suite_id"]), {}).get("status")
        if status != "available":
            missing.append(role)
    tally.see()
    if cell.verdict == "unsupported":
        tally.require(bool(missing), f"{cell.label}: unsupported, while both hosts have it")
    elif cell.verdict == "pass":
        tally.require(
            not missing, f"{cell.label}: a result on a host that lacks the suite ({', '.join(missing)})"
        )


def ring_claims(cell: CellView, tally: Tally) -> None:
    """The record's ring is not above the scenario's or either host's; hardware needs a board revision."""
    tally.see()
    claimed = str(cell.record["ring"])
    rings = [str(cell.run.scenario.get("ring"))]
    rings += [str(cell.run.hosts[role].get("ring")) for role in ROLES]
    told = f"{cell.label}: ring {claimed}, its hosts are {', '.join(rings)}"
    tally.require(weakest([claimed, *rings]) == claimed, told)
    if claimed == "hardware":
        board = part_of(cell.run.hosts["drone"], "host").get("board_revision")
        tally.require(bool(board), f"{cell.label}: ring hardware without a board revision of the drone")
        for role in ROLES:
            played = played_by(part_of(cell.run.hosts[role], "host"))
            tally.require(played is None, f"{cell.label}: ring hardware, and the {role} is {played}")


def influx(bundle: BundleView, tally: Tally) -> None:
    """The view holds as many points a series as the files; the files are the record, so a difference warns.
    Required is that every series of every cell was compared, and that the file counts are those of the files.
    """
    for raw in bundle.runs:
        _reconciled(bundle, raw, tally)


def _reconciled(bundle: BundleView, raw: RawRun, tally: Tally) -> None:
    """One run's comparison covers the cells that were measured in it; one that measured none has none."""
    if all(bundle.run_of(str(row["cell_id"])) is not raw for row in bundle.plan_cells):
        return
    view = raw.run.get("influx")
    if not isinstance(view, dict) or not view.get("available"):
        if raw.scenario.get("ring") == "sim":
            tally.note = "virtual time has no view"
            return
        reason = view.get("reason") if isinstance(view, dict) else None
        tally.warn(f"the view was not reconciled: {reason or 'run.json has no comparison'}")
        return
    compared = {str(entry["cell_id"]): entry for entry in view.get("cells") or []}
    for row in bundle.plan_cells:
        cell_id = str(row["cell_id"])
        if bundle.run_of(cell_id) is not raw:
            continue
        counted: Counter[str] = Counter()
        for path in (bundle.data / "cells" / cell_id).glob("telemetry.*.lp"):
            with path.open(encoding="utf-8") as handle:
                counted.update(line.split(" ", 1)[0] for line in handle)
        _compared(cell_id, counted, compared.pop(cell_id, {"series": []}), tally)
    for cell_id in compared:
        tally.fail(f"{cell_id}: compared, and not of this run")


def _compared(cell_id: str, counted: Counter[str], entry: Json, tally: Tally) -> None:
    for row in entry["series"]:
        tally.see()
        name, told, points = str(row["series"]), int(row["file_count"]), int(row["influx_count"])
        where = f"{cell_id} {name}"
        have = counted.pop(name, 0)
        tally.require(told == have, f"{where}: {told} points claimed, the file has {have}")
        if points != told or row.get("ok") is False:
            tally.warn(f"{where}: {points} points in the view, {told} in the file")
    for name, have in sorted(counted.items()):
        tally.fail(f"{cell_id} {name}: {have} points in the file, compared with nothing")


def providers(bundle: BundleView, tally: Tally) -> None:
    """Every provider is the same build at both ends, wherever its files lie (digests only between equal
    machines, Python's by its minor version: both patch levels are on record)."""
    both = bundle.raw.providers
    drone, ground = part_of(both, "drone"), part_of(both, "gcs")
    binaries = same_machine({role: bundle.raw.hosts[role] for role in ROLES})
    counted = [comparable(side, binaries=binaries, patch_levels=False) for side in (drone, ground)]
    for name in sorted(set(drone) | set(ground)):
        tally.see()
        ours, theirs = (side.get(name) for side in counted)
        tally.require(ours == theirs, f"{name}: {ours} at the drone, {theirs} at the ground")
    for name in ("liboqs", "pqtunnel"):
        told = part_of(drone, name, {})
        digest = told.get("sha256") or told.get("tree_sha256")
        tally.require(bool(digest), f"{name} has no digest")


def identity(bundle: BundleView, tally: Tally) -> None:
    """Each host file is of its role and complete, or says why Windows does not tell a fact; in ring lab all
    hosts share one kernel (one boot id), apart from one whose processor that machine emulates."""
    due = (*ROLES, "controller")
    for role in due:
        tally.see()
        facts = bundle.raw.hosts.get(role)
        if facts is None:
            tally.fail(f"hosts/{role}.json is missing")
            continue
        host = part_of(facts, "host")
        for name in ("machine", "cpu_model", "cpu_count", "kernel", "boot_id"):
            known = host.get(name) not in (None, "") or _is_untold(host, name)
            tally.require(known, f"{role}: no {name}")
        if role != "controller":
            tally.require(facts.get("role") == role, f"hosts/{role}.json says it is the {facts.get('role')}")
    _one_machine(bundle, tally)
    _places(bundle, tally)
    protocols = {str(bundle.raw.hosts[role].get("protocol_version")) for role in ROLES}
    tally.require(len(protocols) == 1, f"protocol versions {', '.join(sorted(protocols))}")
    if bundle.raw.scenario.get("ring") == "lab":
        there = len(kernels({role: bundle.raw.hosts[role] for role in due if role in bundle.raw.hosts}))
        tally.require(there == 1, f"ring lab over {there} kernels")


def _one_machine(bundle: BundleView, tally: Tally) -> None:
    """Hosts of one boot are one machine: the same processor, architecture and kernel. Not where another one
    plays it."""
    first: dict[str, tuple[str, Json]] = {}
    for role, facts in sorted(bundle.raw.hosts.items()):
        host = part_of(facts, "host")
        emulated = str(host.get("cpu_model")).startswith(EMULATED_CPU)
        if played_by(host) or emulated or host.get("os", "linux") != "linux" or not host.get("boot_id"):
            continue
        other, known = first.setdefault(str(host["boot_id"]), (role, host))
        for name in ("machine", "cpu_model", "kernel", "cpu_features"):
            ours, theirs = host.get(name), known.get(name)
            tally.require(
                ours == theirs or (name == "cpu_features" and None in (ours, theirs)),
                f"{name} is {theirs} in hosts/{other}.json and {ours} in hosts/{role}.json, both of boot "
                f"{host['boot_id']}",
            )


def _places(bundle: BundleView, tally: Tally) -> None:
    """Both ends of each run stand at one place of a rack, which has a name, tags and a coordinator, or at
    none."""
    for raw in bundle.runs:
        run_id, told = raw.run.get("run_id"), [(raw.hosts.get(role) or {}).get(PLACE) for role in ROLES]
        tally.require(
            told[0] == told[1], f"run {run_id}: the drone is at place {told[0]}, the gcs at {told[1]}"
        )
        for place in told:
            known = place is None or (isinstance(place, dict) and _is_place(place))
            tally.require(known, f"run {run_id}: {place} is no place of a rack (hosts/*.json)")


def _is_place(place: Json) -> bool:
    tags = place.get("tags")
    text = [place.get("name"), place.get("coordinator_version")]
    named = all(isinstance(value, str) and value for value in text)
    tagged = isinstance(tags, dict) and all(isinstance(value, str) for value in tags.values())
    return place.keys() == {"name", "tags", "coordinator_version"} and named and tagged


def _is_untold(host: Json, name: str) -> bool:
    """Null with a reason, from a system that may not tell it: Windows (and wine in its place), no other."""
    reasons = host.get("reasons")
    reason = reasons.get(name) if isinstance(reasons, dict) else None
    return host.get("os") == "windows" and host.get(name) is None and isinstance(reason, str) and bool(reason)


def selftest(bundle: BundleView, tally: Tally) -> None:
    """Both ends ran their known answers, all were right, and every primitive of a suite with a result is
    among them. `plain` has no primitive."""
    due = set()
    for cell in bundle.cells:
        suite = suite_of(str(cell.plan["suite_id"]))
        if cell.verdict == "pass" and suite is not None and not suite.is_plain:
            due |= {f"kem/{suite.kem.token}", f"sig/{suite.sig.token}", f"aead/{suite.aead.token}"}
    for role in ROLES:
        told = part_of(bundle.raw.hosts[role], "selftest")
        items = rows_of(told, "items")
        untested = sorted(due - {str(item["name"]) for item in items})
        tally.require(not untested, f"{role}: no known answer of {', '.join(untested)}")
        # null: this host lacks the primitive, which matters only where a suite with a result needs it.
        bad = [
            str(item["name"])
            for item in items
            if item["ok"] is False or (item["ok"] is None and str(item["name"]) in due)
        ]
        tally.require(bool(items), f"{role}: the self-test tested nothing")
        tally.require(not bad and bool(told["ok"]), f"{role}: {', '.join(bad) or 'self-test'} failed")
        for _ in items:
            tally.see()
