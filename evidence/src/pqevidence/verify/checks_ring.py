"""The ring of truth from what lies in the bundle, whatever its field says: a simulation is none but a
simulation, and one machine is no hardware."""

from __future__ import annotations

from collections.abc import Iterator
from operator import sub

from pqbase.documents import part_of, rows_of, texts_of, whole_of
from pqevidence.kernel.result import Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.kernel.witnesses import has_witnesses
from pqevidence.record.raw import ROLES, RawRun, played_by

#: every simulated run begins in 2000; no agent of a real one has such a clock
FIRST_REAL_NS = 1_600_000_000 * 10**9
#: datagrams whose cost must all be equal before the clock is called virtual
LEAST_DATAGRAMS = 20
#: of x86 alone
X86_FEATURES = frozenset({"avx2", "pclmulqdq", "vaes", "sse2", "bmi2"})
#: kernel time of both ends at one moment: readings a tick apart on two cores
SAME_MS = 100


def derived(bundle: BundleView, tally: Tally) -> None:
    """Documents of the run: what says sim, what says no more than lab."""
    for raw in bundle.runs:
        tally.see()
        claimed = str(raw.scenario.get("ring"))
        if claimed != "sim":
            for what in _simulated(raw):
                tally.fail(f"ring {claimed} in scenario.effective.yml, and {what}: that is a simulation")
        if claimed == "hardware":
            for what in _one_lab(raw):
                tally.fail(f"ring hardware in scenario.effective.yml, and {what}: that is a lab at most")
    tally.unit = "runs"


def _simulated(raw: RawRun) -> Iterator[str]:
    for role in ROLES:
        built, facts = part_of(raw.providers, role, {}), raw.hosts.get(role) or {}
        if "stand-in" in (built.get("openssl"), part_of(built, "liboqs", {}).get("version")):
            yield f"the primitives of the {role} are stand-ins (providers.json)"
        if facts.get("timestamp_source") == "virtual":
            yield f"the {role} stamps with a virtual clock (hosts/{role}.json)"
        if raw.host(role).get("machine") == "simulated":
            yield f"the {role} runs on no machine (hosts/{role}.json)"
        if any(
            "stand-in" in str(item.get("detail"))
            for item in rows_of(part_of(facts, "selftest", {}), "items", [])
        ):
            yield f"the self-test of the {role} tried stand-ins (hosts/{role}.json)"
    started = raw.run.get("started_ns")
    if isinstance(started, int) and started < FIRST_REAL_NS:
        yield "it began in the year in which virtual time begins (run.json)"


def _one_lab(raw: RawRun) -> Iterator[str]:
    hosts = {role: raw.host(role) for role in ROLES}
    boots = {str(host.get("boot_id")) for host in hosts.values()}
    if len(boots) == 1:
        yield f"both ends show boot id {boots.pop()} (hosts/*.json)"
    drone = hosts["drone"]
    if not drone.get("board_revision"):
        yield "the drone names no board revision (hosts/drone.json)"
    if drone.get("machine") in ("x86_64", "amd64", "AMD64"):
        yield f"the drone is an {drone['machine']} (hosts/drone.json)"
    foreign = X86_FEATURES & set(texts_of(drone, "cpu_features", []))
    if foreign:
        yield f"the drone's processor has {', '.join(sorted(foreign))}, which are of x86 (hosts/drone.json)"
    sensors = rows_of(raw.hosts.get("drone") or {}, "sensors", [])
    if not any(sensor.get("name") == "thermal" and sensor.get("available") for sensor in sensors):
        yield "the drone has no thermal sensor, which every board has (hosts/drone.json)"
    for role, host in hosts.items():
        if (played := played_by(host)) is not None:
            yield f"the {role} is {played} (hosts/{role}.json)"


def real(cell: CellView, tally: Tally) -> None:
    """Raw files of the cell: no clock that stood still between two readings, but in virtual time, no tag of
    another ring, no two machines with one and the same kernel time."""
    claimed = str(cell.run.scenario.get("ring"))
    tally.see()
    for role, lines in cell.raw.telemetry.items():
        tags = {part for line in lines[:1] + lines[-1:] for part in line.split(" ", 1)[0].split(",")[1:]}
        told = {tag.removeprefix("ring=") for tag in tags if tag.startswith("ring=")}
        if told - {claimed}:
            other = ", ".join(sorted(told - {claimed}))
            tally.fail(
                f"{cell.label}: ring {claimed} in scenario.effective.yml, {other} in telemetry.{role}.lp"
            )
    if claimed == "sim":
        _virtual(cell, tally)
        return
    for window, report in (cell.raw.traffic or {}).items():
        for role in ROLES:
            if (report.get(role) or {}).get("source") == "simulated":
                tally.fail(f"{cell.label} {window}: ring {claimed}, and traffic.json has a simulated source")
    for role, ledger in cell.raw.ledgers.items():
        for name, column in (("tx", ledger.tx), ("rx", ledger.rx)):
            took = set(map(sub, column.t_out_ns, column.t_in_ns))
            if len(column) >= LEAST_DATAGRAMS and len(took) == 1:
                tally.fail(
                    f"{cell.label}: ring {claimed}, and each of {len(column)} {name} rows of "
                    f"ledger.{role}.csv "
                    f"took {took.pop()} ns: that is a virtual clock"
                )
    _kernels(cell, tally)


def _virtual(cell: CellView, tally: Tally) -> None:
    """In virtual time a datagram takes as long at the end that sends it as at the one that receives it:
    between its two stamps lies the model's constant, and no processor is slow."""
    if not has_witnesses(cell.run):
        return
    took_ns = {
        f"{name} rows of ledger.{role}.csv": set(map(sub, rows.t_out_ns, rows.t_in_ns))
        for role, ledger in sorted(cell.raw.ledgers.items())
        for name, rows in (("tx", ledger.tx), ("rx", ledger.rx))
    }
    if len(set().union(*took_ns.values())) > 1:
        told = "; ".join(f"{where} {min(ns)} to {max(ns)} ns" for where, ns in took_ns.items() if ns)
        tally.fail(f"{cell.label}: ring sim, and t_out − t_in is not one number: {told}")


def _kernels(cell: CellView, tally: Tally) -> None:
    """Both ends' /proc/stat: one and the same where the boot id is one, another one where it is not."""
    hosts = {role: cell.run.host(role) for role in ROLES}
    if any(played_by(host) or host.get("os") == "windows" for host in hosts.values()):
        return
    told = {role: _busy(cell.raw.telemetry.get(role) or []) for role in ROLES}
    if not all(len(rows) >= 2 for rows in told.values()):
        return
    cores = whole_of(hosts["drone"], "cpu_count", 1)
    pairs = []
    for t_ns, total, busy in (told["drone"][0], told["drone"][-1]):
        other = min(told["gcs"], key=lambda row: abs(row[0] - t_ns))
        pairs.append((abs(other[0] - t_ns) / 1e6 * cores, total - other[1], busy - other[2]))
    same = all(abs(total) <= SAME_MS + apart for apart, total, _ in pairs) and all(
        abs(busy) <= SAME_MS + apart for apart, _, busy in pairs
    )
    one = hosts["drone"].get("boot_id") == hosts["gcs"].get("boot_id")
    if same != one:
        kernel = "one kernel" if same else "two kernels"
        tally.fail(
            f"{cell.label}: telemetry of both ends is of {kernel} (system_busy_ms apart by "
            f"{pairs[0][2]} and {pairs[-1][2]} ms), the boot ids of hosts/*.json are "
            f"{'one' if one else 'two'}"
        )


def _busy(lines: list[str]) -> list[tuple[int, int, int]]:
    """(t_ns, total ms, busy ms) of each pq_cpu line that tells both."""
    found = []
    for line in lines:
        if line.startswith("pq_cpu,"):
            fields = dict(part.split("=", 1) for part in line.split(" ")[1].split(","))
            if "system_total_ms" in fields and "system_busy_ms" in fields:
                total, busy = (int(fields[name][:-1]) for name in ("system_total_ms", "system_busy_ms"))
                found.append((int(line.rsplit(" ", 1)[1]), total, busy))
    return found
