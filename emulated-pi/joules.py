"""Joules of a raw file against what was played, with the uncertainty that the lab would state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pqevidence.analysis.energy import NoEnergyError, Span, Trace
from pqtelemetry.ina219.calibration import Calibration, Line
from pqtelemetry.ina219.registers import BUS_LSB_V, SHUNT_LSB_V
from pqtelemetry.power.rawfile import GAP, PowerSample, read_raw

COVERAGE = 2.0
MARGIN_NS = 500_000_000
SLOWEST_STEPS = 20
"""The guest is slow: a pause of so many periods within a span would be refused as a hole."""


def played(truth: list[tuple[int, float]], span: Span) -> tuple[float, int]:
    """(joules, steps) of what was played: each value holds until the next one is written."""
    joules, steps = 0.0, 0
    for (t_ns, watts), (next_ns, _) in itertools.pairwise(truth):
        low, high = max(t_ns, span.start_ns), min(next_ns, span.end_ns)
        if high > low:
            joules += watts * (high - low) / 1e9
            steps += 1
    return joules, steps


def read_truth(path: Path) -> list[tuple[int, float]]:
    """(time, watts) rows."""
    rows = []
    for line in path.read_text().splitlines():
        t_ns, volts, amps = line.split(",")
        rows.append((int(t_ns), float(volts) * float(amps)))
    return rows


def calibration_of(header: dict[str, Any]) -> Calibration:
    """The calibration that the raw file's header carries."""
    document = {key: value for key, value in header["calibration"].items() if key != "schema"}
    current, voltage = Line(**document.pop("current")), Line(**document.pop("voltage"))
    return Calibration(**document, current=current, voltage=voltage)


def span_of(samples: list[PowerSample], part: str) -> Span:
    """All of it, or what lies before or after the gap, each half a second inside."""
    gaps = [index for index, sample in enumerate(samples) if sample.flags & GAP]
    chosen = samples
    if part == "before":
        chosen = samples[: gaps[0]]
    elif part == "after":
        chosen = samples[gaps[-1] + 1 :]
    return Span(chosen[0].t_mono_ns + MARGIN_NS, chosen[-1].t_mono_ns - MARGIN_NS)


def check_energy(
    raw_path: Path, truth_path: Path, expect: Callable[[bool, object], None], part: str = "all"
) -> dict[str, Any]:
    """|J − played| ≤ U and U ≤ 3 %; for `across` the refusal of a span with a gap in it."""
    raw = read_raw(raw_path)
    period_s = 1.0 / raw.header["rate_hz"]
    span = span_of(raw.samples, part)
    trace = Trace(raw.samples, period_s * SLOWEST_STEPS / 5)
    if part == "across":
        try:
            trace.power(span)
        except NoEnergyError as error:
            return {"refused": str(error)}
        expect(False, "a span with a gap inside got an energy")
    try:
        power = trace.power(span)
    except NoEnergyError as error:
        expect(False, f"{part}: {error}")
        raise
    true_j, steps = played(read_truth(truth_path), span)
    calibration = calibration_of(raw.header)
    mean_a = power.mean_w / 5.1
    relative = calibration.power_relative_u(5.1, mean_a)
    quantum_w = math.hypot(SHUNT_LSB_V / calibration.shunt_ohm * 5.1, BUS_LSB_V * mean_a)
    # every step of the load is seen up to one period late: half a period each, at random
    edges = int(span.seconds * 2)
    alignment_j = 0.4 * 5.1 * period_s / math.sqrt(12) * math.sqrt(edges)
    lateness_s = sum(sample.lateness_ns for sample in raw.samples) / len(raw.samples) / 1e9
    u_j = COVERAGE * math.sqrt(
        (relative * power.energy_j) ** 2
        + (quantum_w / math.sqrt(12) * span.seconds / math.sqrt(power.samples)) ** 2
        + alignment_j**2
    )
    row = {
        "range_mv": raw.header["shunt_range_mv"],
        "seconds": round(span.seconds, 3),
        "samples": power.samples,
        "joules": round(power.energy_j, 4),
        "played_j": round(true_j, 4),
        "steps": steps,
        "error_pct": round(100 * (power.energy_j / true_j - 1), 3),
        "u_pct": round(100 * u_j / true_j, 3),
        "mean_lateness_ms": round(1e3 * lateness_s, 3),
    }
    expect(span.seconds > 3 and steps > 30, row)
    expect(abs(power.energy_j - true_j) <= u_j, row)
    expect(u_j <= 0.03 * true_j, row)
    return row
