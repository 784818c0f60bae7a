"""What the fast power sampler is told: a JSON object, checked before any hardware is touched."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from pqtelemetry.errors import UsageError
from pqtelemetry.ina219.bus import ADDRESSES
from pqtelemetry.ina219.calibration import Calibration, CalibrationError
from pqtelemetry.ina219.registers import Mode, rate_modes

SENSORS: Final = ("ina219", "ina219-stub", "model")
"""A chip; the kernel's stub adapter, asked for by name; the software model, asked for by name."""
_DRIVER: Final = "hwmon"
"""Sampled by the kernel's driver: of these settings only the shunt concerns it."""
DEFAULT_SHUNT_OHM: Final = 0.1


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """Defaults are those of the usual breakout board: 0.1 Ω, address 0x40, bus 1, ± 320 mV (3.2 A).

    adc: `auto` takes the finest resolution that keeps up with rate_hz. calibration: file name, or None for
    the data sheet's limits. grade: None where nobody said it. Raises UsageError.
    """

    sensor: str = "ina219"
    bus: int = 1
    address: int = 0x40
    rate_hz: float = 1000.0
    adc: str = "auto"
    bus_range_v: int = 16
    shunt_range_mv: int = 320
    shunt_ohm: float = DEFAULT_SHUNT_OHM
    shunt_tolerance_pct: float = 1.0
    grade: str | None = None
    calibration: str | None = None
    rail_least_v: float = 4.5
    rail_greatest_v: float = 5.5

    def __post_init__(self) -> None:
        if self.sensor not in (*SENSORS, _DRIVER):
            raise UsageError(f"power sensor {self.sensor!r}: one of {', '.join((*SENSORS, _DRIVER))}")
        if not 1 <= self.rate_hz <= 1000:
            raise UsageError(f"power rate {self.rate_hz:g} Hz is outside 1 to 1000")
        if self.address not in ADDRESSES:
            raise UsageError(f"{self.address:#04x} is no INA219 address (0x40 to 0x4f)")
        if self.shunt_ohm <= 0:
            raise UsageError(f"a shunt of {self.shunt_ohm} Ω cannot be")
        if self.adc != "auto" and Mode(adc=self.adc).greatest_rate_hz < self.rate_hz:
            raise UsageError(
                f"{self.adc} may give only {Mode(adc=self.adc).greatest_rate_hz:.0f} samples a second, "
                f"{self.rate_hz:g} are asked",
                hint="resolutions that keep up: " + ", ".join(rate_modes(self.rate_hz)),
            )

    @property
    def mode(self) -> Mode:
        """Ranges and resolution for the chip."""
        adc = rate_modes(self.rate_hz)[0] if self.adc == "auto" else self.adc
        return Mode(self.bus_range_v, self.shunt_range_mv, adc)

    def load_calibration(self, folder: Path) -> Calibration:
        """The named file beside the settings, or what the data sheet allows.

        Raises CalibrationError, also for a file of another shunt or chip than the settings say.
        """
        if self.calibration is None:
            return self.uncalibrated()
        made = Calibration.load(folder / self.calibration)
        if not math.isclose(made.shunt_ohm, self.shunt_ohm, rel_tol=1e-6):
            raise self._other_sensor(f"a shunt of {made.shunt_ohm:g} Ω", f"shunt_ohm {self.shunt_ohm:g}")
        if self.grade is not None and self.grade != made.grade:
            raise self._other_sensor(f"a chip of grade {made.grade}", f"grade {self.grade}")
        return made

    def uncalibrated(self) -> Calibration:
        """What the data sheet allows, for grade A where nobody said the grade. Raises CalibrationError."""
        return Calibration.assumed(self.grade or "A", self.shunt_ohm, self.shunt_tolerance_pct)

    def _other_sensor(self, made_for: str, said: str) -> CalibrationError:
        return CalibrationError(
            f"{self.calibration} was made with {made_for}, the settings say {said}",
            hint="name in the settings what is on the board; where that changed, calibrate again: "
            "python -m pqtelemetry calibrate --help",
        )

    @classmethod
    def from_json(cls, document: object) -> PowerSettings:
        """From the settings file's object. Raises UsageError that names the unknown key or wrong type."""
        if not isinstance(document, Mapping):
            raise UsageError("power settings are a JSON object")
        known = {field.name: field for field in fields(cls)}
        for key, value in document.items():
            if key not in known:
                raise UsageError(f"power settings: no key {key!r}; known: {', '.join(known)}")
            wanted = type(getattr(cls(), key)) if key not in ("calibration", "grade") else str
            allowed = (int, float) if wanted is float else wanted
            if isinstance(value, bool) or not isinstance(value, allowed):
                raise UsageError(f"power settings: {key} must be {wanted.__name__}, not {value!r:.60}")
        return cls(**document)

    @classmethod
    def named(cls, sensor: str, path: Path | None) -> PowerSettings:
        """For a sensor asked for by name: the file must mean the same one; without a file, the defaults."""
        if path is None:
            return cls(sensor=sensor)
        settings = cls.load(path)
        if settings.sensor != sensor:
            raise UsageError(
                f"{path.name} is for the sensor {settings.sensor}, asked for is {sensor}",
                hint="let --power and the key `sensor` name the same",
            )
        return settings

    @classmethod
    def load(cls, path: Path) -> PowerSettings:
        """From a file. Raises UsageError."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"power settings {path.name} cannot be read: {error}") from error
        return cls.from_json(document)
