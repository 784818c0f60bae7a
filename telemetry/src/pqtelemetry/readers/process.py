"""One process with all its threads: CPU time and resident memory; and the sampler's own CPU.

CPU time comes from the process clock of the kernel (clock_getcpuclockid(3)): nanoseconds over all threads,
ended ones included. utime + stime of /proc/<pid>/stat would move in steps of 10 ms, 10 % of a 100 ms sample.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample
from pqtelemetry.procfile import ProcFile
from pqtelemetry.readers.base import Instant, Rate

_PAGE_BYTES = mmap.PAGESIZE
_CPUCLOCK_SCHED = 2


def process_cpu_ns(pid: int) -> int:
    """CPU time of a process and all its threads; raises OSError when there is no such process."""
    if sys.platform == "win32":
        raise OSError(0, "Windows has no clock of another process")
    # The encoding of clockid_t for another process, as glibc's clock_getcpuclockid builds it.
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)


class Process:
    """`pq_cpu` process_pct (of one core), process_cpu_ns; `pq_mem` rss_bytes, thread_count, fd_count."""

    name = "process"
    period_s = 0.0

    def __init__(self, root: Path, pid: int, cpu_ns: Callable[[int], int] = process_cpu_ns) -> None:
        self.pid = pid
        self._stat = ProcFile(root / f"proc/{pid}/stat")
        self._files = root / f"proc/{pid}/fd"
        self._cpu_ns = cpu_ns
        self._rate = Rate()
        self._start_time: bytes | None = None

    def read(self, now: Instant) -> Sequence[Sample]:
        """Two samples; raises SensorUnavailable once the process is gone, also when its pid is used anew."""
        try:
            columns = self._stat.read().rpartition(b")")[2].split()
            if len(columns) < 22:
                raise SensorUnavailable(f"/proc/{self.pid}/stat is cut short")
            if columns[0] in (b"Z", b"X"):
                raise SensorUnavailable(f"process {self.pid} has ended (state {columns[0].decode()})")
            # Column 22 of proc(5), counted from the state (column 3).
            start_time = columns[19]
            if self._start_time not in (None, start_time):
                raise SensorUnavailable(f"process {self.pid} has ended and its number was given to another")
            self._start_time = start_time
            try:
                cpu_ns = self._cpu_ns(self.pid)
            except OSError as error:
                raise SensorUnavailable(f"process {self.pid} has no CPU clock: {error.strerror}") from error
        except SensorUnavailable:
            self._rate.reset()
            raise
        cpu: dict[str, FieldValue] = {"process_cpu_ns": cpu_ns}
        percent = self._rate.percent(cpu_ns, now.monotonic_ns)
        if percent is not None:
            cpu["process_pct"] = percent
        memory: dict[str, FieldValue] = {
            "rss_bytes": int(columns[21]) * _PAGE_BYTES,
            "thread_count": int(columns[17]),
        }
        with contextlib.suppress(OSError):  # another user's process hides them: then the field is absent
            memory["fd_count"] = sum(1 for _ in self._files.iterdir())
        return [Sample("pq_cpu", cpu), Sample("pq_mem", memory)]


class OwnCpu:
    """`pq_cpu` sampler_pct and sampler_cpu_ns: what watching costs, all threads of the sampler."""

    name = "sampler"
    period_s = 0.0

    def __init__(self, cpu_ns: Callable[[], int] = time.process_time_ns) -> None:
        self._cpu_ns = cpu_ns
        self._rate = Rate()

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; the share is absent in the first."""
        cpu_ns = self._cpu_ns()
        fields: dict[str, FieldValue] = {"sampler_cpu_ns": cpu_ns}
        percent = self._rate.percent(cpu_ns, now.monotonic_ns)
        if percent is not None:
            fields["sampler_pct"] = percent
        return [Sample("pq_cpu", fields)]
