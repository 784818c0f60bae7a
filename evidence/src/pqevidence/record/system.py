"""The telemetry files of both hosts, read within a cell, and what of them was due."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pqbase.documents import Json, number_of, part_of, rows_of
from pqevidence.record.raw import RawRun
from pqtelemetry.slice import Point

#: measurements of which a host may have several series, each of another sensor
APART = ("pq_temp", "pq_power")
Points = list[tuple[int, Mapping[str, int | float | bool | str]]]
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
            float(value)
            for t_ns, fields in self.series.get(measurement, [])
            if start_ns <= t_ns < end_ns and isinstance(value := fields.get(name), int | float)
        ]

    def increase(self, measurement: str, name: str) -> int | None:
        """Growth of a cumulative counter over the cell; None with fewer than two points or after a reset."""
        found = [int(v) for _, f in self.series.get(measurement, []) if isinstance(v := f.get(name), int)]
        if len(found) < 2 or any(b < a for a, b in pairwise(found)):
            return None
        return found[-1] - found[0]

    def growth(self, measurement: str, name: str, start_ns: int, end_ns: int) -> tuple[int, int, int] | None:
        """(growth, time in ns, points) of a cumulative counter in [start, end); None as in increase."""
        found = [
            (t_ns, value)
            for t_ns, fields in self.series.get(measurement, [])
            if start_ns <= t_ns < end_ns and isinstance(value := fields.get(name), int)
        ]
        if len(found) < 2 or any(after < before for (_, before), (_, after) in pairwise(found)):
            return None
        return found[-1][1] - found[0][1], found[-1][0] - found[0][0], len(found)

    def last(self, measurement: str, name: str) -> float | None:
        """Last value of a field in the cell."""
        found = [v for _, f in self.series.get(measurement, []) if isinstance(v := f.get(name), int | float)]
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


def within(points: Iterable[Point], start_ns: int, end_ns: int) -> Telemetry:
    """Points with start <= time <= end."""
    telemetry = Telemetry()
    for point in points:
        if start_ns <= point.time_ns <= end_ns:
            row = point.time_ns, point.fields
            telemetry.series[point.measurement].append(row)
            if point.measurement in APART:
                sensors = telemetry.sensors.setdefault(point.measurement, {})
                sensors.setdefault(point.tags, []).append(row)
    return telemetry


def sample_account(telemetry: Telemetry, start_ns: int, end_ns: int, rate_hz: float) -> Samples:
    """Ticks due in [start, end] at the stated rate, and ticks stored. Due = whole periods in the span."""
    return Samples(expected=int((end_ns - start_ns) / 1e9 * rate_hz), stored=len(telemetry.ticks_ns))


def tick_hz(scenario: Json) -> float:
    """How often both samplers look; the rate of old bundles where the scenario does not say."""
    told = part_of(scenario, "telemetry", {})
    return number_of(told, "rate_hz") if "rate_hz" in told else 10.0


def sensor_reason(raw: RawRun, role: str, name: str) -> str:
    """Why a sensor gave nothing, in the host's own words."""
    for sensor in rows_of(raw.hosts.get(role, {}), "sensors", []):
        if sensor.get("name") == name and sensor.get("reason"):
            return f"no {name} sensor: {sensor['reason']}"
    return f"no {name} sensor reported by this host"
