"""Categories N, O, Q, T and the sample accounting of R: from the telemetry files of both hosts.

CPU and memory are those of the traffic window (of the cell where there is none); counters of the kernel are
increases over the cell. A series that a host does not have is null with a reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pqbase.text import utc_text_ms
from pqevidence.record.raw import ROLES, Json, RawRun
from pqevidence.record.sheet import Sheet
from pqevidence.record.stats import mean
from pqtelemetry.slice import Point, parse_line
from pqtunnel.quiet import STEAL_LIMIT_PCT

READ = tuple(
    f"pq_{name}," for name in ("cpu", "pressure", "mem", "load", "freq", "temp", "power", "net", "sampler")
)
#: measurements of which a host may have several series, each of another sensor
APART = ("pq_temp", "pq_power")
Points = list[tuple[int, dict[str, Any]]]
Series = dict[str, Points]
LETTER = {"drone": "N", "gcs": "O"}


@dataclass
class Telemetry:
    """Points of one host by measurement, inside the cell; those of `APART` by their tags as well."""

    series: Series = field(default_factory=lambda: defaultdict(list))
    sensors: dict[str, dict[tuple[tuple[str, str], ...], Points]] = field(default_factory=dict)

    def values(self, measurement: str, name: str, start_ns: int, end_ns: int) -> list[float]:
        """Numeric values of a field with start <= time < end."""
        return [
            float(fields[name])
            for t_ns, fields in self.series.get(measurement, [])
            if start_ns <= t_ns < end_ns and isinstance(fields.get(name), int | float)
        ]

    def increase(self, measurement: str, name: str) -> int | None:
        """Growth of a cumulative counter over the cell; None with fewer than two points or after a reset."""
        found = [int(f[name]) for _, f in self.series.get(measurement, []) if isinstance(f.get(name), int)]
        if len(found) < 2 or any(b < a for a, b in pairwise(found)):
            return None
        return found[-1] - found[0]

    def growth(self, measurement: str, name: str, start_ns: int, end_ns: int) -> tuple[int, int, int] | None:
        """(growth, time in ns, points) of a cumulative counter in [start, end); None as in increase."""
        found = [
            (t_ns, fields[name])
            for t_ns, fields in self.series.get(measurement, [])
            if start_ns <= t_ns < end_ns and isinstance(fields.get(name), int)
        ]
        if len(found) < 2 or any(after < before for (_, before), (_, after) in pairwise(found)):
            return None
        return found[-1][1] - found[0][1], found[-1][0] - found[0][0], len(found)

    def last(self, measurement: str, name: str) -> float | None:
        """Last value of a field in the cell."""
        found = [f[name] for _, f in self.series.get(measurement, []) if isinstance(f.get(name), int | float)]
        return float(found[-1]) if found else None

    def until(self, end_ns: int) -> Telemetry:
        """The points before `end_ns`."""
        kept: Series = defaultdict(list)
        for name, points in self.series.items():
            kept[name] = [point for point in points if point[0] < end_ns]
        return Telemetry(kept, self.sensors)

    def each(self, measurement: str) -> list[tuple[dict[str, str], Telemetry]]:
        """(tags, points) of every sensor that gave points of this measurement."""
        return [
            (dict(tags), Telemetry(series={measurement: points}))
            for tags, points in sorted(self.sensors.get(measurement, {}).items())
        ]

    @property
    def ticks_ns(self) -> list[int]:
        """Times of the sampler's own series: one a tick that was stored."""
        return [t_ns for t_ns, _ in self.series.get("pq_sampler", [])]


@dataclass(frozen=True)
class Samples:
    """Accounting of one host's sampler within a cell."""

    expected: int
    stored: int

    @property
    def lost(self) -> int:
        """Due and not stored."""
        return max(0, self.expected - self.stored)


def parse_telemetry(lines: Sequence[str], start_ns: int, end_ns: int) -> Telemetry:
    """Points with start <= time <= end; ParseError of pqtelemetry for a damaged line."""
    telemetry = Telemetry()
    for line in lines:
        if not line.startswith(READ):
            continue  # the tunnel's counters have a file of their own; lines of 50 fields are dear to parse
        point: Point = parse_line(line)
        if start_ns <= point.time_ns <= end_ns:
            row = point.time_ns, dict(point.fields)
            telemetry.series[point.measurement].append(row)
            if point.measurement in APART:
                sensors = telemetry.sensors.setdefault(point.measurement, {})
                sensors.setdefault(tuple(point.tags), []).append(row)
    return telemetry


def sample_account(telemetry: Telemetry, start_ns: int, end_ns: int, rate_hz: float) -> Samples:
    """Ticks due in [start, end] at the stated rate, and ticks stored. Due = whole periods in the span."""
    return Samples(expected=int((end_ns - start_ns) / 1e9 * rate_hz), stored=len(telemetry.ticks_ns))


def fill_system(
    sheet: Sheet, role: str, telemetry: Telemetry | None, span_ns: tuple[int, int], raw: RawRun, window: str
) -> None:
    """Category N (drone) or O (gcs)."""
    letter = LETTER[role]
    if telemetry is None:
        sheet.null_rest(letter, "no telemetry file of this host")
        return
    none = f"no sample within {window}"
    steal, n_steal = _system_share(telemetry, "system_steal_ms", span_ns)
    stolen = steal is not None and steal > STEAL_LIMIT_PCT
    why = f"steal {steal:.1f} % is above {STEAL_LIMIT_PCT:g} %" if stolen and steal is not None else None

    def cpu(name: str, value: float | None, n: int | None, absent: str = none) -> None:
        sheet.put(
            letter,
            name,
            value,
            n=n,
            absent=absent,
            validity="invalid" if stolen else "ok",
            reason=why,
        )

    cpu("cpu_usage_mean_pct", *_system_share(telemetry, "system_busy_ms", span_ns))
    peaks = telemetry.values("pq_cpu", "system_pct", *span_ns)
    cpu("cpu_usage_peak_pct", max(peaks, default=None), len(peaks))
    for name, source in (
        ("tunnel_cpu_mean_pct", "process_cpu_ns"),
        ("container_cpu_mean_pct", "container_cpu_ns"),
        ("sampler_cpu_mean_pct", "sampler_cpu_ns"),
    ):
        grown = telemetry.growth("pq_cpu", source, *span_ns)
        share = 100 * grown[0] / grown[1] if grown else None
        cpu(name, share, grown[2] if grown else None, f"the sampler has no {source} on this host")
    sheet.put(letter, "steal_mean_pct", steal, n=n_steal, absent="the kernel reports no steal time")
    memory = telemetry.values("pq_mem", "rss_bytes", *span_ns)
    rss = max(memory) / 1e6 if memory else None
    sheet.put(letter, "memory_rss_mb", rss, n=len(memory), absent=none)
    zones = [zone.values("pq_temp", "temperature_c", *span_ns) for _, zone in telemetry.each("pq_temp")]
    heat = max(filter(None, zones), key=lambda zone: mean(zone) or 0.0, default=[])
    sheet.put(letter, "temperature_c", mean(heat), n=len(heat), absent=sensor_reason(raw, role, "thermal"))
    for name, source in (("1m", "load1"), ("5m", "load5"), ("15m", "load15")):
        load = telemetry.last("pq_load", source)
        sheet.put(
            letter, f"load_avg_{name}_count", load, absent="the sampler has no load average on this host"
        )
    clock = telemetry.values("pq_freq", "frequency_mhz", *span_ns)
    sheet.put(
        letter, "cpu_freq_mhz", mean(clock), n=len(clock), absent="this host does not expose its frequency"
    )
    threads = telemetry.values("pq_mem", "thread_count", *span_ns)
    thread_count = int(max(threads)) if threads else None
    sheet.put(letter, "thread_count", thread_count, n=len(threads), absent=none)
    sheet.null_rest(letter, "this version's sampler does not read it")


def _system_share(
    telemetry: Telemetry, name: str, span_ns: tuple[int, int]
) -> tuple[float | None, int | None]:
    """(per cent of all CPU time, points) from cumulative times: percentages of 100 ms are coarse."""
    part = telemetry.growth("pq_cpu", name, *span_ns)
    whole = telemetry.growth("pq_cpu", "system_total_ms", *span_ns)
    if part is None or whole is None or whole[0] <= 0:
        return None, None
    return 100 * part[0] / whole[0], part[2]


def sensor_reason(raw: RawRun, role: str, name: str) -> str:
    """Why a sensor gave nothing, in the host's own words."""
    for sensor in raw.hosts.get(role, {}).get("sensors") or []:
        if sensor.get("name") == name and sensor.get("reason"):
            return f"no {name} sensor: {sensor['reason']}"
    return f"no {name} sensor reported by this host"


def fill_observability(sheet: Sheet, telemetry: dict[str, Telemetry], accounts: dict[str, Samples]) -> None:
    """Category Q and the sample counts of R."""
    none = "no telemetry file of the drone"
    stored = sum(account.stored for account in accounts.values()) if accounts else None
    sheet.put("Q", "log_sample_count", stored, absent="no telemetry file of either host")
    ticks = telemetry["drone"].ticks_ns if "drone" in telemetry else []
    span_s = (ticks[-1] - ticks[0]) / 1e9 if len(ticks) > 1 else None
    sheet.put(
        "Q", "sampling_rate_hz", (len(ticks) - 1) / span_s if span_s else None, n=len(ticks), absent=none
    )
    sheet.put("Q", "collection_start_utc", utc_text_ms(ticks[0]) if ticks else None, absent=none)
    sheet.put("Q", "collection_end_utc", utc_text_ms(ticks[-1]) if ticks else None, absent=none)
    sheet.put("Q", "collection_duration_ms", span_s * 1e3 if span_s else None, absent=none)
    grown = {
        role: telemetry[role].increase("pq_sampler", "telegraf_dropped_count") if role in telemetry else None
        for role in ROLES
    }
    known = [count for count in grown.values() if count is not None]
    silent = ", ".join(role for role, count in grown.items() if count is None)
    dropped = sum(known) if not silent else None
    sheet.put("Q", "telegraf_dropped_count", dropped, absent=f"no count of it at: {silent}")
    drone = accounts.get("drone")
    sheet.put("R", "expected_samples_count", drone.expected if drone else None, absent=none)
    sheet.put("R", "collected_samples_count", drone.stored if drone else None, absent=none)
    sheet.put("R", "lost_samples_count", drone.lost if drone else None, absent=none)
    late = telemetry["drone"].increase("pq_sampler", "late_count") if "drone" in telemetry else None
    sheet.put("R", "late_samples_count", late, absent=none)


def fill_kernel(sheet: Sheet, telemetry: dict[str, Telemetry], counters: dict[str, Json] | None) -> None:
    """Category T."""
    for role in ROLES:
        for name in ("udp_in_datagrams", "udp_in_errors", "udp_rcvbuf_errors", "if_rx_dropped"):
            grown = telemetry[role].increase("pq_net", name) if role in telemetry else None
            sheet.put(
                "T", f"{name}_{role}_count", grown, absent="no two samples of this counter within the cell"
            )
    for name in ("queue_full", "gated"):
        value = None
        if counters is not None and all(name in counters.get(role, {}) for role in ROLES):
            value = sum(int(counters[role][name]) for role in ROLES)
        sheet.put("T", f"{name}_count", value, absent=f"both ends' {name} is not there")
