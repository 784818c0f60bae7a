"""A calibration from known loads: what the sensor read beside what a better meter said.

Readings are uncalibrated. Current needs three loads that differ; where the rail's voltage hardly moved its
gain cannot be known, so only its offset is fitted and the data sheet's gain error stays in the residual.
"""

from __future__ import annotations

import csv
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pqtelemetry.errors import StoreError, UsageError
from pqtelemetry.ina219.calibration import Calibration, CalibrationError, Line, fit
from pqtelemetry.ina219.device import SensorRefused
from pqtelemetry.power.command import first_readings, open_sensor
from pqtelemetry.power.settings import PowerSettings

READINGS: Final = 500
"""Averaged at each load: a second or less of fresh readings."""
_LEAST_SPREAD_V: Final = 0.2
COLUMNS: Final = ("true_v", "true_a", "read_v", "read_a")


@dataclass(frozen=True, slots=True)
class Load:
    """One known load and the mean reading there."""

    true_v: float
    true_a: float
    read_v: float
    read_a: float


def parse_loads(texts: Sequence[str]) -> list[tuple[float, float]]:
    """`VOLTS,AMPS` each; raises UsageError."""
    loads = []
    for text in texts:
        try:
            volts, amps = (float(part) for part in text.split(","))
        except ValueError as error:
            raise UsageError(f"--load {text!r} is not VOLTS,AMPS") from error
        loads.append((volts, amps))
    return loads


def given(path: Path) -> list[Load]:
    """Loads from a CSV file. Raises UsageError naming what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if set(rows.fieldnames or ()) != set(COLUMNS):
                raise ValueError(f"its columns are {rows.fieldnames}")
            return [Load(*(float(row[name]) for name in COLUMNS)) for row in rows]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path.name} is not a CSV of {','.join(COLUMNS)}: {error}") from error


def read_sensor(
    settings: PowerSettings, loads: Sequence[tuple[float, float]], ask: Callable[[str], str]
) -> list[Load]:
    """Read the sensor at each load, after a person has set it. Raises SensorRefused, BusError."""
    chip = open_sensor(settings, settings.uncalibrated()).chip
    taken = []
    for volts, amps in loads:
        ask(f"set {volts:g} V, {amps:g} A, wait until it is steady, then press Enter ")
        readings = first_readings(chip, READINGS)
        if len(readings) < READINGS or any(reading.clipped for reading in readings):
            raise SensorRefused(f"at {amps:g} A only {len(readings)} readings came, or some were clipped")
        mean_v = statistics.fmean(reading.voltage_v for reading in readings)
        taken.append(Load(volts, amps, mean_v, statistics.fmean(reading.current_a for reading in readings)))
    return taken


def make(settings: PowerSettings, sensor_id: str, method: str, loads: Sequence[Load]) -> Calibration:
    """Both lines. Raises CalibrationError when the loads do not carry them."""
    plain = settings.uncalibrated()
    current = fit([load.read_a for load in loads], [load.true_a for load in loads])
    truths = [load.true_v for load in loads]
    if max(truths) - min(truths) >= _LEAST_SPREAD_V:
        voltage = fit([load.read_v for load in loads], truths)
    else:
        errors = [load.read_v - load.true_v for load in loads]
        voltage = Line(
            1.0, statistics.fmean(errors), statistics.stdev(errors), len(errors), plain.voltage.relative
        )
    return Calibration(
        sensor_id,
        plain.grade,
        settings.shunt_ohm,
        time.strftime("%Y-%m-%d", time.gmtime()),
        method,
        current,
        voltage,
    )


def store(calibration: Calibration, path: Path) -> None:
    """Write the file, unless `Calibration.load` would refuse it. Raises StoreError, CalibrationError."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(json.dumps(calibration.to_json(), indent=2) + "\n", encoding="utf-8")
        try:
            Calibration.load(fresh)
        except CalibrationError:
            fresh.unlink()
            raise
        fresh.replace(path)
    except OSError as error:
        raise StoreError(f"{path.name} cannot be written: {error.strerror}") from error
