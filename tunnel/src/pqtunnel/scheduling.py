"""What the kernel's scheduler says of one thread: processor time, time runnable but not running, preemptions.

Linux alone tells the second (`/proc/thread-self/schedstat`, second field: sched_info.run_delay, since the
thread began, ns; Documentation/scheduler/sched-stats.rst of the kernel). A host that cannot tell gives None
and the reason. A reading in a loop costs 2 µs, the thread clock alone 0.6 µs (`clock_costs`); on the way of a
handshake, where nothing is in a cache, six times as much (docs/RECORD.md, "Waiting").
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

if sys.platform != "win32":
    import resource

NO_THREAD: Final = "no thread of a kernel ran this: its clock is not the machine's"
NOT_LINUX: Final = f"{sys.platform} does not tell how long a thread waited for a processor"
NO_SCHEDSTAT: Final = "this kernel keeps no scheduler statistics (CONFIG_SCHED_INFO)"
SCHEDSTAT: Final = "/proc/thread-self/schedstat"
SAMPLED_EVERY: Final = 20
SAMPLED_FIRST: Final = 4
"""The fifth: those before it fill the caches for all that follow."""
SLOW_WALL_NS: Final = 5_000_000
_LINE_BYTES: Final = 80
_ROUNDS: Final = 200


@dataclass(frozen=True)
class Reading:
    """Totals of one thread since it began. `raw` is the line of schedstat, parsed only when asked for."""

    cpu_ns: int
    raw: bytes
    involuntary: int

    @property
    def runqueue_ns(self) -> int:
        """Time in which the thread could have run and had no processor."""
        return int(self.raw.split()[1])


class Meter(Protocol):
    """Reads what concerns the calling thread."""

    reason: str | None
    """Why nothing can be read here; None where it can."""

    def cpu_ns(self) -> int | None:
        """Processor time of the calling thread, ns."""
        ...

    def begin(self) -> Reading | None:
        """A reading that ends as close as can be to the moment of return."""
        ...

    def end(self) -> Reading | None:
        """A reading that starts with the processor time."""
        ...


class NoMeter:
    """Nothing to read: virtual time, or a platform that does not tell."""

    def __init__(self, reason: str) -> None:
        self.reason: str | None = reason

    def cpu_ns(self) -> None:
        """Nothing."""

    def begin(self) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class ThreadMeter:
    """Reads the thread that made it, through one open file; no other thread may use it."""

    reason: str | None = None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def cpu_ns(self) -> int:
        """Processor time of the calling thread, ns (CLOCK_THREAD_CPUTIME_ID)."""
        return time.thread_time_ns()

    def begin(self) -> Reading:
        """A reading that ends with the processor time."""
        raw = os.pread(self._descriptor, _LINE_BYTES, 0)
        involuntary = _involuntary()
        return Reading(time.thread_time_ns(), raw, involuntary)

    def end(self) -> Reading:
        """A reading that starts with the processor time."""
        cpu_ns = time.thread_time_ns()
        return Reading(cpu_ns, os.pread(self._descriptor, _LINE_BYTES, 0), _involuntary())


_OF_THREAD = threading.local()


@contextlib.contextmanager
def thread_meter() -> Iterator[Meter]:
    """The calling thread's meter, opened once a thread; a NoMeter with its reason elsewhere."""
    if sys.platform != "linux":
        yield NoMeter(NOT_LINUX)
        return
    held = getattr(_OF_THREAD, "meter", None)
    if held is None:
        held = _opened()
        if isinstance(held, ThreadMeter):
            _OF_THREAD.meter = held
    yield held


def _opened() -> Meter:
    try:
        descriptor = os.open(SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return NoMeter(f"{SCHEDSTAT}: {error.strerror or error}")
    meter = ThreadMeter(descriptor)
    fields = os.pread(descriptor, _LINE_BYTES, 0).split()
    # A thread that reads this has run at least once: a kernel that counts says so.
    counted = len(fields) == 3 and int(fields[2]) > 0
    return meter if counted else NoMeter(NO_SCHEDSTAT)


class PrimitiveSampling:
    """Which handshakes of a cell have their primitives metered: reading a thread's clock around each costs
    some 40 µs, which a slow handshake does not notice and a fast one does. `make bench` measures it."""

    def __init__(self) -> None:
        self._slow = False

    def due(self, index: int) -> bool:
        """Is the handshake of this number, from 0, to be metered?"""
        return self._slow or index % SAMPLED_EVERY == SAMPLED_FIRST

    def made(self, wall_ns: int) -> None:
        """What one of them took at this end."""
        self._slow = wall_ns >= SLOW_WALL_NS


def _involuntary() -> int:
    if sys.platform == "win32":
        raise NotImplementedError  # a ThreadMeter is of Linux
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def clock_costs() -> dict[str, object]:
    """What one reading costs on this host, ns, the least of many: clock, thread clock, a whole reading.

    The least, because anything above it is the machine's other work.
    """
    with thread_meter() as meter:
        told = meter.reason is None
        return {
            "monotonic_ns": _least_ns(time.perf_counter_ns),
            "thread_cpu_ns": _least_ns(meter.cpu_ns) if told else None,
            "reading_ns": _least_ns(meter.begin) if told else None,
            "reason": meter.reason,
        }


def _least_ns(read: Callable[[], object]) -> int:
    best = sys.maxsize
    for _ in range(_ROUNDS):
        start_ns = time.perf_counter_ns()
        for _ in range(10):
            read()
        best = min(best, (time.perf_counter_ns() - start_ns) // 10)
    return best
