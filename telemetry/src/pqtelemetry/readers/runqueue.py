"""How long the threads of the agent's process could have run and had no processor.

The second field of /proc/PID/task/TID/schedstat counts it for each thread since that began, in nanoseconds
(Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import Sample
from pqtelemetry.procfile import ProcFile
from pqtelemetry.readers.base import Instant, Missing, Reader

NO_SCHEDSTAT = "this kernel keeps no scheduler statistics (CONFIG_SCHED_INFO)"


def find_runqueue(root: Path, pid: int) -> Reader:
    """The reader for this process, or a `Missing` that says why there is none."""
    try:
        fields = (root / f"proc/{pid}/schedstat").read_bytes().split()
    except OSError as error:
        return Missing("runqueue", f"/proc/{pid}/schedstat: {error.strerror or error}")
    # A process that is there has run at least once: a kernel that counts says so.
    return RunQueue(root, pid) if len(fields) == 3 and int(fields[2]) else Missing("runqueue", NO_SCHEDSTAT)


class RunQueue:
    """`pq_cpu`: process_runqueue_ns, summed over all threads seen so far. A thread that ended keeps what it
    had at the tick before, so that the sum never falls."""

    name = "runqueue"
    period_s = 0.0

    def __init__(self, root: Path, pid: int) -> None:
        self._tasks = root / f"proc/{pid}/task"
        self._open: dict[str, ProcFile] = {}
        self._waited_ns: dict[str, int] = {}
        self._ended_ns = 0

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable when the process is gone."""
        try:
            living = {path.name for path in self._tasks.iterdir()}
        except OSError as error:
            raise SensorUnavailable(f"{self._tasks}: {error.strerror or error}") from error
        for thread in living:
            file = self._open.setdefault(thread, ProcFile(self._tasks / thread / "schedstat"))
            try:
                self._waited_ns[thread] = int(file.read().split()[1])
            except SensorUnavailable:  # it ended since it was listed
                living = living - {thread}
        for thread in self._open.keys() - living:
            self._open.pop(thread).close()
            self._ended_ns += self._waited_ns.pop(thread, 0)
        total_ns = self._ended_ns + sum(self._waited_ns.values())
        return [Sample("pq_cpu", {"process_runqueue_ns": total_ns})]
