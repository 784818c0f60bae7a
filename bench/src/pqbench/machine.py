"""How busy the machine is with other work, and what a process has cost.

CPU of a process is what the scheduler charged to all of its living threads (/proc/PID/task/*/schedstat: user
and system together, ns). Work that the kernel does for a packet in softirq context is charged to whichever
thread is interrupted; `system_busy_ns` holds it in any case.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pqtunnel.quiet import FOREIGN_LIMIT_PCT, STEAL_LIMIT_PCT, Probe, probe


def process_cpu_ns(pids: Iterable[int], root: Path = Path("/proc")) -> int:
    """CPU of all living threads of these processes so far."""
    total = 0
    for pid in pids:
        for task in (root / str(pid) / "task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def system_busy_ns(root: Path = Path("/proc")) -> int:
    """CPU of everything on the machine so far: user, nice, system, irq and softirq of all cores."""
    fields = (root / "stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def steal_ns(root: Path = Path("/proc")) -> int:
    """CPU that the hypervisor gave to others while this machine wanted it."""
    fields = (root / "stat").read_text().splitlines()[0].split()[1:]
    return int(fields[7]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def container_cpu_ns(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """CPU of the bench's own container so far; None where its control group cannot be read."""
    old, new = root / "cpuacct" / "cpuacct.usage", root / "cpu.stat"
    if old.is_file():
        return int(old.read_text())
    if new.is_file():
        rows = dict(line.split() for line in new.read_text().splitlines())
        return int(rows["usage_usec"]) * 1000
    return None


@dataclass(frozen=True)
class Reading:
    """Everything at one moment."""

    time_s: float
    load: tuple[float, float, float]
    busy_ns: int
    steal_ns: int
    own_ns: int | None
    probe: Probe | None = None
    """What a thread waited for a processor then."""

    @classmethod
    def now(cls) -> Reading:
        """Of this moment."""
        waiting = probe()
        return cls(
            time.monotonic(), os.getloadavg(), system_busy_ns(), steal_ns(), container_cpu_ns(), waiting
        )


def verdict(before: Reading, after: Reading) -> dict[str, object]:
    """Load average before and after, foreign CPU between, and whether the figures count as taken on a quiet
    machine; `reasons` says why not."""
    wall_ns = (after.time_s - before.time_s) * 1e9
    foreign_pct: float | None = None
    if before.own_ns is not None and after.own_ns is not None:
        spent_ns = (after.busy_ns - before.busy_ns) - (after.own_ns - before.own_ns)
        foreign_pct = round(max(0.0, 100 * spent_ns / wall_ns), 1)
    stolen_pct = round(100 * (after.steal_ns - before.steal_ns) / wall_ns, 1)
    reasons = []
    for when, reading in (("before", before), ("after", after)):
        if reading.probe is not None and reading.probe.quiet is False:
            reasons.append(f"{reading.probe.sentence} {when} the run")
    if foreign_pct is None:
        reasons.append("the control group's CPU cannot be read: other work is not known")
    elif foreign_pct > FOREIGN_LIMIT_PCT:
        reasons.append(f"other processes used {foreign_pct} % of a core (limit {FOREIGN_LIMIT_PCT:.0f} %)")
    if stolen_pct > STEAL_LIMIT_PCT:
        reasons.append(f"the hypervisor took {stolen_pct} % of a core")
    return {
        "load_average_before": list(before.load),
        "load_average_after": list(after.load),
        "foreign_cpu_pct": foreign_pct,
        "steal_pct": stolen_pct,
        "is_busy": bool(reasons),
        "reasons": reasons,
        "duration_s": round(after.time_s - before.time_s, 1),
    }


def facts() -> dict[str, object]:
    """What the machine is."""
    model = None
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            model = line.partition(":")[2].strip()
            break
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "cpu_model": model,
        "cpu_count": os.cpu_count(),
        "memory_mib": memory_kib // 1024,
    }
