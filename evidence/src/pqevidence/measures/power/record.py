"""Category P: supply power of the drone over the traffic window, from the points of its sensor."""

from __future__ import annotations

from itertools import pairwise

from pqevidence.record.facts import Facts
from pqevidence.record.sheet import Sheet, Validity
from pqevidence.record.stats import mean, median
from pqevidence.record.system import Points, sensor_reason, tick_hz

#: power figures and joules stand for the window where at least this share of it is covered, and no two
#: points are further apart than this many periods
LEAST_COVERAGE = 0.95
MOST_PERIODS = 3
#: a point stands for the time since the one before it, unless that is this many times longer than its own
LATE_SHARE = 1.5


def fill(sheet: Sheet, facts: Facts) -> None:
    """Category P, drone only. Watts of a synthetic sensor carry validity `model` and say so; two sensors are
    never one figure, clipped samples make lower bounds, and joules need a window without holes."""
    telemetry, span_ns, raw = facts.telemetry.get("drone"), facts.span_ns, facts.context
    sensors = telemetry.each("pq_power") if telemetry else []
    if len(sensors) != 1:
        names = ", ".join(tags.get("sensor", "unnamed") for tags, _ in sensors)
        several = f"{len(sensors)} power sensors ({names}) gave points: no figure is of more than one"
        sheet.null_rest("P", several if sensors else sensor_reason(raw, "drone", "power"))
        return
    ((tags, told),) = sensors
    none = f"no power sample within {facts.span_name}"
    watts = told.values("pq_power", "power_w", *span_ns)
    notes = ["synthetic sensor: not a measurement"] if tags.get("synthetic") == "true" else []
    real: Validity = "model" if notes else "ok"
    clipped = int(sum(told.values("pq_power", "clipped_count", *span_ns)))
    bound = f"{clipped} samples at the end of the sensor's range: a lower bound" if clipped else None
    clipped_notes = [*notes, bound] if bound else notes
    lower: Validity = "invalid" if bound and real == "ok" else real

    def put(name: str, value: float | str | None, *, bounded: bool = False, absent: str = none) -> None:
        reason = "; ".join(clipped_notes if bounded else notes) or None
        validity, n = lower if bounded else real, None if isinstance(value, str) else len(watts)
        sheet.put("P", name, value, n=n, validity=validity, reason=reason, absent=absent)

    rate_hz = tick_hz(raw.scenario)
    inside = (p for p in told.series["pq_power"] if span_ns[0] <= p[0] < span_ns[1] and "power_w" in p[1])
    points = sorted(inside, key=lambda point: point[0])
    hole = bound or _hole(points, span_ns, rate_hz)
    if tags.get("sensor_class") == "pmic":
        hole = "the PMIC's watts have no stated uncertainty and enter no energy"
    put("power_sensor_type", tags.get("sensor"))
    put("power_sampling_rate_hz", _rate_hz(points, span_ns, rate_hz))
    put("voltage_mean_v", mean(told.values("pq_power", "voltage_v", *span_ns)))
    put("current_mean_a", mean(told.values("pq_power", "current_a", *span_ns)), bounded=True)
    put("power_mean_w", mean(watts), bounded=True)
    put("power_peak_w", max(watts, default=None), bounded=True)
    joules = None if hole or not watts else (mean(watts) or 0.0) * (span_ns[1] - span_ns[0]) / 1e9
    put("energy_gross_j", joules, absent=hole if hole and watts else none)
    sheet.null_rest("P", "needs idle-work-idle blocks, which this scenario does not have")


def _samples(points: Points) -> list[int]:
    """What stands behind each point: the fast sampler counts its samples, others take one a point."""
    counts = [fields.get("n_count") for _, fields in points]
    return [count if isinstance(count, int) else 1 for count in counts]


def _rate_hz(points: Points, span_ns: tuple[int, int], tick_hz: float) -> float | None:
    """Samples a second over the window. Where its edges are covered, from the first point to the last: a
    point counts the time before it, and a window of seconds holds one more or less by chance."""
    if not points:
        return None
    counts, first, last = _samples(points), points[0][0], points[-1][0]
    edge_ns = LATE_SHARE * 1e9 / tick_hz
    if last > first and first - span_ns[0] <= edge_ns and span_ns[1] - last <= edge_ns:
        return sum(counts[1:]) * 1e9 / (last - first)
    return sum(counts) * 1e9 / (span_ns[1] - span_ns[0])


def _hole(points: Points, span_ns: tuple[int, int], tick_hz: float) -> str | None:
    """Why the points do not stand for the whole window; None where they do."""
    if len(points) < 2 or span_ns[1] <= span_ns[0]:
        return "fewer than two power samples"
    tick_ns = 1e9 / tick_hz
    times, counts = [span_ns[0], *(t_ns for t_ns, _ in points)], _samples(points)
    longest_ns = max(b - a for a, b in pairwise([*times, span_ns[1]]))
    if longest_ns > MOST_PERIODS * tick_ns:
        return f"no power sample for {longest_ns / 1e9:.2f} s"
    steps = [b - a for a, b in pairwise(times)]
    own_ns = tick_ns
    if any("n_count" in fields for _, fields in points):
        own_ns = median([b / n for b, n in zip(steps[1:], counts[1:], strict=True) if n]) or tick_ns
    covered_ns = min(tick_ns, span_ns[1] - times[-1])
    for step, count in zip(steps, counts, strict=True):
        covered_ns += step if step <= LATE_SHARE * count * own_ns else count * own_ns
    share = covered_ns / (span_ns[1] - span_ns[0])
    return None if share >= LEAST_COVERAGE else f"power samples cover {100 * share:.1f} % of the window"
