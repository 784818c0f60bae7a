"""Calibration of one sensor on its board: two straight lines, their residuals, and where they came from.

    true value = gain × (reading − offset), for current and for voltage

The file is made from known loads (`fit`), names the sensor it belongs to, and carries the residual that the
uncertainty budget starts from. Without a file the shunt's tolerance and the chip's gain error take its place,
relative to the reading as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pqtelemetry.errors import TelemetryError

SCHEMA: Final = "pqtelemetry/ina219-calibration/v1"
_CURRENT_PCT: Final = {"A": 1.0, "B": 0.5}
_VOLTAGE_PCT: Final = {"A": 1.0, "B": 1.0}
"""Greatest total errors over temperature by grade (SBOS448G §7.5), % of reading; B is better in current."""


class CalibrationError(TelemetryError):
    """A calibration that cannot be used."""

    code = "calibration"
    hint = "make one with known loads: python -m pqtelemetry calibrate --help"


@dataclass(frozen=True, slots=True)
class Line:
    """true = gain × (reading − offset); `residual` is the standard deviation of the fit, n its points.

    relative: standard uncertainty of the gain where no load taught it, as a fraction of the reading.
    """

    gain: float
    offset: float
    residual: float
    n: int
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Both lines with their provenance. `sensor_id` is what the person wrote on the board; `date_utc` ISO."""

    sensor_id: str
    grade: str
    shunt_ohm: float
    date_utc: str
    method: str
    current: Line
    voltage: Line

    def current_a(self, reading_a: float) -> float:
        """The calibrated current."""
        return self.current.gain * (reading_a - self.current.offset)

    def voltage_v(self, reading_v: float) -> float:
        """The calibrated voltage."""
        return self.voltage.gain * (reading_v - self.voltage.offset)

    def power_relative_u(self, voltage_v: float, current_a: float) -> float:
        """Standard uncertainty of one power value from both lines, as a fraction of it."""
        if voltage_v == 0 or current_a == 0:
            return math.inf
        return math.hypot(
            self.current.residual / current_a,
            self.current.relative,
            self.voltage.residual / voltage_v,
            self.voltage.relative,
        )

    def to_json(self) -> dict[str, object]:
        """The file's content."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """From a file. Raises CalibrationError that names the file and what is wrong with it."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.pop("schema") != SCHEMA:
                raise CalibrationError(f"{path.name} is not a {SCHEMA} file")
            current, voltage = Line(**document.pop("current")), Line(**document.pop("voltage"))
            calibration = cls(**document, current=current, voltage=voltage)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CalibrationError(f"{path.name} cannot be read as a calibration: {error}") from error
        for name, line in (("current", current), ("voltage", voltage)):
            sound = 0.8 < line.gain < 1.25 and math.isfinite(line.offset)
            sound = sound and line.residual >= 0 and line.relative >= 0
            if not sound or line.n < 2:
                raise CalibrationError(f"{path.name}: the {name} line is implausible: {line}")
        return calibration

    @classmethod
    def assumed(cls, grade: str, shunt_ohm: float, shunt_tolerance_pct: float) -> Calibration:
        """No known loads: identity lines, relative errors as data sheet and shunt allow (rectangular).

        `method` says that nothing was measured. Raises CalibrationError for a grade that does not exist.
        """
        if grade not in _CURRENT_PCT:
            raise CalibrationError(f"INA219 grade {grade!r}: A or B (as printed: INA219A, INA219B)")
        current = math.hypot(_CURRENT_PCT[grade], shunt_tolerance_pct) / 100 / math.sqrt(3)
        voltage = _VOLTAGE_PCT[grade] / 100 / math.sqrt(3)
        return cls(
            "uncalibrated",
            grade,
            shunt_ohm,
            "",
            "assumed from data sheet and shunt tolerance",
            Line(1.0, 0.0, 0.0, 2, current),
            Line(1.0, 0.0, 0.0, 2, voltage),
        )


def fit(readings: Sequence[float], truths: Sequence[float]) -> Line:
    """Least-squares line through known loads. Raises CalibrationError below three distinct points."""
    if len(readings) != len(truths) or len(readings) < 3 or len(set(readings)) < 3:
        raise CalibrationError("a line with a residual needs at least three different loads")
    n = len(readings)
    mean_x, mean_y = math.fsum(readings) / n, math.fsum(truths) / n
    sxx = math.fsum((x - mean_x) ** 2 for x in readings)
    sxy = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(readings, truths, strict=True))
    gain = sxy / sxx
    if gain == 0:
        raise CalibrationError("the readings do not follow the loads at all")
    offset = mean_x - mean_y / gain
    squares = math.fsum((y - gain * (x - offset)) ** 2 for x, y in zip(readings, truths, strict=True))
    return Line(gain, offset, math.sqrt(squares / (n - 2)), n)
