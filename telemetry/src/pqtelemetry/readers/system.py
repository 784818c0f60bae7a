"""The whole machine: CPU time by state (/proc/stat, proc(5)), memory, load average.

/proc/stat counts in ticks of 10 ms, so one 100 ms sample of a 2-core machine moves in steps of 5 %;
the cumulative milliseconds beside the percentages give exact means over any longer window.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample
from pqtelemetry.procfile import ProcFile
from pqtelemetry.readers.base import Instant


def tick_ms() -> int:
    """What /proc/stat counts in. On Windows that of nearly every Linux: such files were captured there."""
    if sys.platform == "win32":
        return 10
    return 1000 // os.sysconf("SC_CLK_TCK")


_TICK_MS = tick_ms()


class _CpuTimes:
    """One cpu line of /proc/stat: busy, steal and total in ms, and the shares since the last reading."""

    def __init__(self) -> None:
        self._last: tuple[int, int, int] | None = None

    def update(self, columns: list[bytes], line: str) -> tuple[dict[str, FieldValue], dict[str, FieldValue]]:
        """(shares, totals) of `user nice system idle iowait irq softirq steal`; guest is inside user."""
        if len(columns) < 8:
            raise SensorUnavailable(f"{line} has {len(columns)} columns, 8 are needed")
        user, nice, system, idle, iowait, irq, softirq, steal = (int(column) for column in columns[:8])
        busy = user + nice + system + irq + softirq
        total = busy + idle + iowait + steal
        last, self._last = self._last, (busy, steal, total)
        shares: dict[str, FieldValue] = {}
        if last is not None and total > last[2] and busy >= last[0] and steal >= last[1]:
            passed = total - last[2]
            shares = {
                "system_pct": round(100.0 * (busy - last[0]) / passed, 3),
                "steal_pct": round(100.0 * (steal - last[1]) / passed, 3),
            }
        totals: dict[str, FieldValue] = {
            "system_busy_ms": busy * _TICK_MS,
            "system_steal_ms": steal * _TICK_MS,
            "system_total_ms": total * _TICK_MS,
        }
        return shares, totals


class SystemCpu:
    """`pq_cpu`: system_pct and steal_pct of all cores together, and the cumulative times."""

    name = "cpu"
    period_s = 0.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/stat")
        self._times = _CpuTimes()

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; the shares are absent in the first."""
        first, _, _ = self._file.read().partition(b"\n")
        name, *columns = first.split() or [b""]
        if name != b"cpu":
            raise SensorUnavailable("/proc/stat does not begin with the cpu line")
        shares, totals = self._times.update(columns, "cpu line of /proc/stat")
        return [Sample("pq_cpu", shares | totals)]


class Cores:
    """`pq_core,cpu=N`: busy_pct and steal_pct of each core, once a second because of the 10 ms ticks."""

    name = "cores"
    period_s = 1.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/stat")
        self._cores: dict[str, _CpuTimes] = {}

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample a core from the second reading on."""
        samples: list[Sample] = []
        for line in self._file.read().splitlines():
            name, *columns = line.split() or [b""]
            core = name.removeprefix(b"cpu").decode()
            if not name.startswith(b"cpu") or not core:
                continue
            shares, _ = self._cores.setdefault(core, _CpuTimes()).update(columns, f"cpu{core} line")
            if shares:
                fields = {"busy_pct": shares["system_pct"], "steal_pct": shares["steal_pct"]}
                samples.append(Sample("pq_core", fields, (("cpu", core),)))
        return samples


class Memory:
    """`pq_mem`: available_bytes of the machine (MemAvailable of /proc/meminfo)."""

    name = "memory"
    period_s = 0.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/meminfo")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable on kernels without MemAvailable."""
        _, found, rest = self._file.read().partition(b"MemAvailable:")
        if not found:
            raise SensorUnavailable("/proc/meminfo has no MemAvailable")
        return [Sample("pq_mem", {"available_bytes": int(rest.split(None, 1)[0]) * 1024})]


class LoadAverage:
    """`pq_load`: load1, load5, load15 (runnable tasks), once a second."""

    name = "load"
    period_s = 1.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / "proc/loadavg")

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample."""
        one, five, fifteen = (float(text) for text in self._file.read().split()[:3])
        return [Sample("pq_load", {"load1": one, "load5": five, "load15": fifteen})]
