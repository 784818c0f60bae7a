"""What Windows tells of itself. Every number comes from a function given by `pqtelemetry.winapi`.

What the system has no counter for is a sensor with a reason, not a zero: steal, load, throttling and more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pqbase.patience import patiently
from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import FieldValue, Sample, tag_text
from pqtelemetry.readers.base import Instant, Missing, Rate, Reader

ABSENT: Final = {
    "pressure": "Windows keeps no pressure stall information",
    "runqueue": "Windows does not tell how long a thread waited for a processor",
    "steal": "Windows tells no guest how much time its hypervisor gave to others",
    "container": "Windows accounts no control group",
    "thermal": "Windows gives an ordinary user no temperature",
    "cores": "times of single cores are not read on Windows",
    "load": "Windows has no load average",
    "frequency": "Windows tells a nominal frequency alone",
    "throttle": "no Raspberry Pi firmware driver",
}
WINE_INTERFACES: Final = "wine passes on no interface counters of its host"
SystemTimes = Callable[[], tuple[int, int, int]]
InterfaceRows = Callable[[], list[tuple[str, dict[str, int]]]]
_STALE_NS: Final = 1_000_000_000
Told = TypeVar("Told")


def absent_sensors() -> list[Reader]:
    """One sensor with its reason for each thing that Windows does not tell."""
    return [Missing(name, reason) for name, reason in ABSENT.items()]


class WindowsCpu:
    """`pq_cpu` system_pct, system_busy_ms, system_total_ms of all cores; no field of steal."""

    name = "cpu"
    period_s = 0.0

    def __init__(self, times: SystemTimes) -> None:
        self._times = times
        self._last: tuple[int, int] | None = None

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; the share is absent in the first. Times in 100 ns, idle is part of kernel."""
        idle, kernel, user = _told(self._times)
        total = kernel + user
        busy = total - idle
        last, self._last = self._last, (busy, total)
        fields: dict[str, FieldValue] = {}
        if last is not None and total > last[1] and busy >= last[0]:
            fields["system_pct"] = round(100.0 * (busy - last[0]) / (total - last[1]), 3)
        fields["system_busy_ms"] = busy // 10_000
        fields["system_total_ms"] = total // 10_000
        return [Sample("pq_cpu", fields)]


class WindowsMemory:
    """`pq_mem` available_bytes."""

    name = "memory"
    period_s = 0.0

    def __init__(self, available_bytes: Callable[[], int]) -> None:
        self._available_bytes = available_bytes

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample."""
        return [Sample("pq_mem", {"available_bytes": _told(self._available_bytes)})]


class ToldProcess:
    """`pq_cpu` process_pct, process_cpu_ns as the agent tells them of itself; `pq_mem` rss_bytes.

    Under wine the system answers a question about another process with the asker's own times.
    """

    name = "process"
    period_s = 0.0

    def __init__(self, pid: int, counters: Path, resident_bytes: Callable[[int], int]) -> None:
        self.pid = pid
        self._counters = counters
        self._resident_bytes = resident_bytes
        self._rate = Rate()

    def read(self, now: Instant) -> Sequence[Sample]:
        """Two samples; raises SensorUnavailable without a fresh word of that process."""
        try:
            told_ns, cpu_ns = self._word(now)
            memory = _told(lambda: self._resident_bytes(self.pid))
        except SensorUnavailable:
            self._rate.reset()
            raise
        cpu: dict[str, FieldValue] = {"process_cpu_ns": cpu_ns}
        percent = self._rate.percent(cpu_ns, told_ns)
        if percent is not None:
            cpu["process_pct"] = percent
        return [Sample("pq_cpu", cpu), Sample("pq_mem", {"rss_bytes": memory})]

    def _word(self, now: Instant) -> tuple[int, int]:
        """(when it was told, realtime ns; CPU time of all its threads, ns)."""
        name = self._counters.name
        try:
            document = json.loads(patiently(self._counters.read_bytes))
            pid, told_ns, cpu_ns = (document[key] for key in ("pid", "t_ns", "process_cpu_ns"))
        except OSError as error:
            raise SensorUnavailable(f"{name}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError):
            raise SensorUnavailable(f"{name} does not tell its writer's CPU time") from None
        if pid != self.pid:
            raise SensorUnavailable(f"{name} is not of process {self.pid}")
        if not isinstance(told_ns, int) or not isinstance(cpu_ns, int):
            raise SensorUnavailable(f"{name} does not tell its writer's CPU time")
        if now.realtime_ns - told_ns > _STALE_NS:
            raise SensorUnavailable(f"{name} is older than 1000 ms: its writer stalls")
        return told_ns, cpu_ns


class WindowsUdp:
    """`pq_net` udp_in_datagrams, udp_out_datagrams, udp_no_ports, udp_in_errors of the host."""

    name = "udp"
    period_s = 0.0

    def __init__(self, statistics: Callable[[], dict[str, int]]) -> None:
        self._statistics = statistics

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; the system counts no datagrams dropped at a full socket."""
        return [Sample("pq_net", _told(self._statistics))]


class WindowsInterfaceDrops:
    """`pq_net` if_rx_dropped, if_tx_dropped: sums over all hardware interfaces."""

    name = "interface-drops"
    period_s = 0.0

    def __init__(self, rows: InterfaceRows) -> None:
        self._rows = rows

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable where there is no such interface."""
        rows = _some(self._rows)
        fields: dict[str, FieldValue] = {
            f"if_{name}": sum(counts[name] for _, counts in rows) for name in ("rx_dropped", "tx_dropped")
        }
        return [Sample("pq_net", fields)]


class WindowsInterfaces:
    """`pq_if,interface=X`: bytes, packets, errors and drops each way, once a second."""

    name = "interfaces"
    period_s = 1.0

    def __init__(self, rows: InterfaceRows) -> None:
        self._rows = rows

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample an interface; raises SensorUnavailable where there is none."""
        return [
            Sample("pq_if", counts, (("interface", tag_text(name)),)) for name, counts in _some(self._rows)
        ]


def _some(rows: InterfaceRows) -> list[tuple[str, dict[str, int]]]:
    found = _told(rows)
    if not found:
        raise SensorUnavailable("no hardware network interface")
    return found


def _told(call: Callable[[], Told]) -> Told:
    """What a call of the system answers. Raises SensorUnavailable with its own text."""
    try:
        return call()
    except OSError as error:
        raise SensorUnavailable(f"Windows: {error.strerror or error}") from error
