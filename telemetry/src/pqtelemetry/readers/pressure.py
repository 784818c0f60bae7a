"""Pressure on the processors: how long some thread of the machine was runnable and had none.

The kernel's pressure stall information (Documentation/accounting/psi.rst): `some` of /proc/pressure/cpu grows
by a microsecond in each microsecond in which at least one thread waits. In a container it is the machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import Sample
from pqtelemetry.procfile import ProcFile
from pqtelemetry.readers.base import Instant, Missing, Reader

FILE = "proc/pressure/cpu"
NO_PRESSURE = f"/{FILE} cannot be read: a kernel without pressure stall information (CONFIG_PSI, psi=1)"


def find_pressure(root: Path) -> Reader:
    """The reader for this host, or a `Missing` that says why there is none."""
    try:
        (root / FILE).read_bytes()
    except OSError:  # not there, or there and refused because the kernel was started with psi=0
        return Missing("pressure", NO_PRESSURE)
    return Pressure(root)


class Pressure:
    """`pq_pressure`: cpu_some_us, cumulative."""

    name = "pressure"
    period_s = 0.0

    def __init__(self, root: Path) -> None:
        self._file = ProcFile(root / FILE)

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable for a file without `some`."""
        for line in self._file.read().splitlines():
            kind, *pairs = line.split()
            for pair in pairs:
                key, _, value = pair.partition(b"=")
                if kind == b"some" and key == b"total":
                    return [Sample("pq_pressure", {"cpu_some_us": int(value)})]
        raise SensorUnavailable(f"/{FILE} has no total of `some`")
