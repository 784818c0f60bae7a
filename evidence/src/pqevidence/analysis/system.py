"""CPU and temperature per host, from raw telemetry lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pqbase.documents import part_of, rows_of
from pqevidence.analysis.column import CELL, Column, names
from pqevidence.analysis.handshakes import cell_columns
from pqevidence.analysis.load import ROLES, BundleData, Cell
from pqevidence.analysis.stats import mean
from pqevidence.analysis.table import Table, Value, as_value
from pqevidence.record.dataplane import gate_ns
from pqevidence.record.raw import RawCell
from pqevidence.record.system import LETTER, Telemetry
from pqevidence.scenario.conditions import keeps_ledger
from pqtelemetry import slice as lines_of
from pqtelemetry.slice import Point
from pqtunnel.quiet import STEAL_LIMIT_PCT

#: More steal than this and the CPU figures of a cell say nothing about the tunnel.
#: shares of one tick, for maxima alone
TICK_FIELDS = ("system_pct", "steal_pct", "process_pct")
#: column → cumulative counter of the machine's CPU time, ms
SYSTEM = {"system_mean_pct": "system_busy_ms", "steal_mean_pct": "system_steal_ms"}
SYSTEM_TOTAL = "system_total_ms"
#: column → cumulative counter of one core's time, ns
OWN = {
    "process_mean_pct": "process_cpu_ns",
    "container_mean_pct": "container_cpu_ns",
    "sampler_mean_pct": "sampler_cpu_ns",
}
#: columns taken from the record, which has them of the same window
WAITING = ("tunnel_processor_wait_pct", "cpu_pressure_pct")


COLUMNS = (
    *CELL,
    Column("host", "drone or gcs", "host"),
    Column("span", "traffic window, or cell where there is none"),
    Column("n_samples", "ticks of the sampler in it", "samples", "n", True),
    Column("system_mean_pct", "all programs, of all cores", "system", "% of all cores", True),
    Column("steal_mean_pct", "taken by the hypervisor, of all cores", "steal, mean", "% of all cores", True),
    Column("steal_max_pct", "the same: the largest of a tick", "steal, max", "% of all cores", True),
    Column("process_mean_pct", "the tunnel, of one core", "tunnel, mean", "% of a core", True),
    Column("process_max_pct", "the same: the largest of a tick", "tunnel, max", "% of a core", True),
    Column("container_mean_pct", "its control group, of one core", "container", "% of a core", True),
    Column("sampler_mean_pct", "the sampler itself, of one core", "sampler", "% of a core", True),
    Column(
        "tunnel_processor_wait_pct",
        "the tunnel's threads could have run and had no processor",
        "tunnel waited for a processor",
        "% of the window",
        True,
    ),
    Column("cpu_pressure_pct", "some thread had no processor", "some thread waited", "% of the window", True),
    Column("rss_max_mb", "memory of the tunnel, the most", "tunnel RSS, max", "MB", True),
    Column("temperature_mean_c", "mean of the hottest zone", "temperature", "°C", True),
    Column("temperature_reason", "why there is none"),
    Column("cpu_valid", "no steal above the limit, no busy machine", "valid for CPU claims"),
    Column("reason", "why there is no CPU figure"),
    Column("ledger", "did both ends keep a row a datagram?"),
    Column("controller_on_dut", "did the controller run on the drone's machine?"),
)


def cpu_table(bundle: BundleData) -> Table:
    """One row a cell and host: CPU shares and temperature over the traffic window (else the whole cell).

    The tunnel's, the container's and the sampler's shares are per cent of one core, those of system and steal
    of all. Means are growth of cumulative counters, as in the record: a lost tick takes nothing out of them.
    Maxima are of single ticks.
    ``ledger``: both ends kept a row a datagram; ``controller_on_dut``: the controller ran on the drone's
    machine.
    """
    table = Table("cpu", names(COLUMNS))
    shared = as_value(part_of(bundle.run or {}, "controller", {}).get("controller_on_dut"))
    kept = {
        str(condition["name"]): keeps_ledger(bundle.scenario, condition) for condition in bundle.conditions
    }
    for cell in bundle.cells:
        # what a CPU figure holds beside the tunnel's own work, so that it goes nowhere without saying so
        beside: dict[str, Value] = {"ledger": kept.get(cell.condition), "controller_on_dut": shared}
        for role in ROLES:
            table.add(**cell_columns(cell), host=role, **_cpu_row(bundle, cell, role), **beside)
    return table


@dataclass(frozen=True)
class Sampled:
    """What the sampler of one end gave in a span: number of ticks, shares in per cent by column, the counters
    that have no growth, the largest shares of a tick, memory, and temperature of the hottest zone."""

    span_ns: tuple[int, int] | None
    points_count: int
    system_count: int
    means: dict[str, float | None]
    absent: list[str]
    steal_max_pct: float | None
    process_max_pct: float | None
    rss_max_bytes: float | None
    temperature_c: float | None


#: lines of these with tags are all that both readers read of them
_BARE = ("pq_cpu ", "pq_mem ", "pq_temp ")


def sampled_before(cell: RawCell, role: str) -> Sampled | None:
    """Of what the record's own reader has parsed; None where it reads other lines, or there are none."""
    lines = cell.telemetry[role]
    if not lines or any(line.startswith(_BARE) for line in lines):
        return None
    span_ns = gate_ns((cell.traffic or {}).get("traffic") or {}, "drone")
    start, end = span_ns or (-math.inf, math.inf)
    inside = [point for point in cell.points(role) if start <= point.time_ns < end]
    return _sampled(lambda name: (point for point in inside if point.measurement == name), span_ns)


def _sampled_of(cell: Cell, role: str, span_ns: tuple[int, int] | None) -> Sampled | None:
    """None where there is no line."""
    known = (cell.known.sampled or {}).get(role)
    if known is not None and known.span_ns == span_ns:
        return known
    lines = cell.telemetry_lines(role)
    start, end = span_ns or (None, None)
    series = partial(lines_of.points, lines, start_ns=start, end_ns=end)
    return _sampled(series, span_ns) if lines else None


def _sampled(series: Callable[[str], Iterable[Point]], span_ns: tuple[int, int] | None) -> Sampled:
    """series: points of one in the span."""
    points = list(series("pq_cpu"))
    found: dict[str, list[float]] = {name: [] for name in TICK_FIELDS}
    for point in points:
        for name in TICK_FIELDS:
            if name in point.fields:
                found[name].append(float(point.fields[name]))
    means, absent = _means(points)
    told = [point.fields.get("rss_bytes") for point in series("pq_mem")]
    rss = [value for value in told if isinstance(value, int | float) and not isinstance(value, bool)]
    return Sampled(
        span_ns,
        len(points),
        len(found["system_pct"]),
        means,
        absent,
        max(found["steal_pct"], default=None),
        max(found["process_pct"], default=None),
        max(rss, default=None),
        _hottest_zone_c(series("pq_temp")),
    )


def _cpu_row(bundle: BundleData, cell: Cell, role: str) -> dict[str, Value]:
    window = gate_ns(cell.traffic_windows.get("traffic") or {}, "drone")
    told = _sampled_of(cell, role, window)
    no_zone = _sensor_reason(bundle, role, "thermal")
    if told is None:
        return {
            "reason": "no telemetry in this cell",
            "temperature_reason": no_zone or "no telemetry in this cell",
        }
    means, temperature = told.means, told.temperature_c
    reason = f"no growth of {', '.join(told.absent)} in the span" if told.absent else None
    steal = means["steal_mean_pct"]
    busy = None
    if steal is None or steal <= STEAL_LIMIT_PCT:
        busy = cell.why_invalid(LETTER[role], "tunnel_cpu_mean_pct")
    if busy is not None:
        means = {**dict.fromkeys(means), "steal_mean_pct": steal}
    return {
        "span": "traffic" if window else "cell",
        "n_samples": told.system_count,
        **means,
        **{name: as_value((cell.value(LETTER[role], name) or {}).get("value")) for name in WAITING},
        "steal_max_pct": told.steal_max_pct,
        "process_max_pct": None if busy is not None else told.process_max_pct,
        "rss_max_mb": None if told.rss_max_bytes is None else told.rss_max_bytes / 1e6,
        "temperature_mean_c": temperature,
        "temperature_reason": None if temperature is not None else no_zone or "no temperature in the series",
        "cpu_valid": False if busy else None if steal is None else steal <= STEAL_LIMIT_PCT,
        "reason": busy or reason if told.points_count else "no CPU sample in the span",
    }


def _means(points: Sequence[Point]) -> tuple[dict[str, float | None], list[str]]:
    """Mean shares in per cent by column, and the counters that have no growth: absent, once, or set back."""
    series = Telemetry({"pq_cpu": [(point.time_ns, dict(point.fields)) for point in points]})
    everything = (points[0].time_ns, points[-1].time_ns + 1) if points else (0, 0)
    sources = (*SYSTEM.values(), SYSTEM_TOTAL, *OWN.values())
    grown = {name: series.growth("pq_cpu", name, *everything) for name in sources}
    total = grown[SYSTEM_TOTAL]
    found: dict[str, float | None] = {}
    for column, name in SYSTEM.items():
        part = grown[name]
        found[column] = 100 * part[0] / total[0] if part and total and total[0] > 0 else None
    for column, name in OWN.items():
        own = grown[name]
        found[column] = 100 * own[0] / own[1] if own and own[1] > 0 else None
    return found, [name for name, growth in grown.items() if growth is None]


def _hottest_zone_c(points: Iterable[Point]) -> float | None:
    """Mean temperature of the zone whose mean is the highest; None where no zone was sampled."""
    zones: dict[str, list[float]] = {}
    for point in points:
        if "temperature_c" in point.fields:
            zones.setdefault(point.series, []).append(float(point.fields["temperature_c"]))
    return max((m for values in zones.values() if (m := mean(values)) is not None), default=None)


def _sensor_reason(bundle: BundleData, role: str, wanted: str) -> str | None:
    """Why a host has no sensor of that kind, in the host's own words."""
    for sensor in rows_of(bundle.hosts[role], "sensors", []):
        if wanted in str(sensor.get("name", "")) and not sensor.get("available"):
            return str(sensor.get("reason") or "not available")
    return None
