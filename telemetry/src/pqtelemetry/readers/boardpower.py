"""Power that the board or its kernel already measures: hwmon drivers of the INA family, and the Pi 5's PMIC.

Kernel document: hwmon/ina2xx (curr1_input mA, in1_input mV of the bus, power1_input µW, shunt_resistor µΩ).
The driver takes the shunt for 10 mΩ unless it is told: a board's 0.1 Ω would read ten times its current.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.ina219.bus import STUB_ADAPTER
from pqtelemetry.line import FieldValue, Sample, Tags, tag_text
from pqtelemetry.power.settings import DEFAULT_SHUNT_OHM
from pqtelemetry.procfile import ProcFile, read_text
from pqtelemetry.readers.base import Instant, Missing, Reader

HWMON_CHIPS: Final = ("ina209", "ina219", "ina220", "ina226", "ina230", "ina231", "ina234", "ina260")
PMIC_METHOD: Final = (
    "sum of volts times amps of the rails that the PMIC measures both of; without the PMIC's own losses and "
    "without what runs on 5 V itself, so it reads low, by 15 % and more"
)
_PMIC_TIMEOUT_S: Final = 0.08
_ADC: Final = re.compile(r"^\s*(\S+)_([AV])\s+(?:current|volt)\(\d+\)=(-?[0-9.]+)[AV]\s*$")
_LEAST_RAILS: Final = 6
_SHUNT_TOLERANCE: Final = 1e-3


class HwmonPower:
    """`pq_power,sensor=hwmon:…` of one chip whose kernel driver is bound.

    shunt_ohm: of the board; a driver that computes with another one gives no sample. A driver that does not
    tell its shunt (INA260: inside the chip) is believed, and its samples have no field `shunt_ohm`.
    """

    period_s = 0.0

    def __init__(self, name: str, label: str, folder: Path, kind: str, shunt_ohm: float) -> None:
        self.name = name
        self._shunt_ohm = shunt_ohm
        shunt = folder / "shunt_resistor"
        self._shunt_path = shunt
        self._shunt = ProcFile(shunt) if shunt.exists() else None
        self._tags: Tags = (("sensor", f"hwmon:{label}"), ("sensor_class", kind))
        if kind != "chip":
            self._tags = (*self._tags, ("synthetic", "true"))
        self._files = {
            name: (ProcFile(folder / file), scale)
            for name, file, scale in (
                ("current_a", "curr1_input", 1e3),
                ("voltage_v", "in1_input", 1e3),
                ("power_w", "power1_input", 1e6),
            )
            if (folder / file).exists()
        }

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; power is the driver's own, else volts times amps of this reading."""
        fields: dict[str, FieldValue] = self._checked_shunt()
        values: dict[str, float] = {}
        for name, (file, scale) in self._files.items():
            text = file.read().strip()
            try:
                values[name] = int(text) / scale
            except ValueError:
                raise SensorUnavailable(f"{self.name}: {text!r} is no number") from None
        if "power_w" not in values and {"current_a", "voltage_v"} <= set(values):
            values["power_w"] = values["current_a"] * values["voltage_v"]
        fields.update(values)
        return [Sample("pq_power", fields, self._tags)]

    def _checked_shunt(self) -> dict[str, FieldValue]:
        """The shunt that the driver computes with, where it tells. Raises SensorUnavailable for another."""
        if self._shunt is None:
            return {}
        text = self._shunt.read().strip()
        try:
            shunt_ohm = int(text) / 1e6
        except ValueError:
            raise SensorUnavailable(f"{self.name}: {text!r} is no shunt") from None
        if abs(shunt_ohm - self._shunt_ohm) > _SHUNT_TOLERANCE * self._shunt_ohm:
            raise SensorUnavailable(
                f"{self.name}: the driver computes with a shunt of {shunt_ohm:g} Ω, the settings say "
                f"{self._shunt_ohm:g} Ω; as root: echo {round(self._shunt_ohm * 1e6)} > {self._shunt_path}, "
                "or shunt_ohm in the settings"
            )
        return {"shunt_ohm": shunt_ohm}


def find_hwmon_power(root: Path, shunt_ohm: float = DEFAULT_SHUNT_OHM) -> list[Reader]:
    """One reader a bound chip, or one `Missing`. shunt_ohm: what the board has."""
    found: list[Reader] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = read_text(folder / "name") or ""
        if chip in HWMON_CHIPS and (folder / "curr1_input").exists():
            adapter = read_text((folder / "device").resolve().parent / "name") or STUB_ADAPTER
            kind = "stub-bus" if STUB_ADAPTER in adapter else "chip"
            label = tag_text(f"{folder.name}-{chip}")
            name = f"power:{label}" if found else "power"
            found.append(HwmonPower(name, label, folder, kind, shunt_ohm))
    return found or [
        Missing(
            "power",
            "no hwmon driver of the INA family is bound (modprobe ina2xx, then new_device, then "
            f"echo {round(shunt_ohm * 1e6)} > /sys/class/hwmon/hwmonN/shunt_resistor)",
        )
    ]


def parse_pmic(text: str) -> tuple[float, int, float | None]:
    """(watts, rails, volts of the 5 V input or None) of the tool's text. Raises SensorUnavailable."""
    rails: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = _ADC.match(line)
        if match is None:
            raise SensorUnavailable(f"pmic: {line.strip()!r:.60} is no ADC line")
        rails.setdefault(match[1], {})[match[2]] = float(match[3])
    paired = [rail["A"] * rail["V"] for rail in rails.values() if len(rail) == 2]
    if len(paired) < _LEAST_RAILS:
        raise SensorUnavailable(f"pmic: {len(paired)} rails with both volts and amps, a Pi 5 has twelve")
    return math.fsum(paired), len(paired), rails.get("EXT5V", {}).get("V")


def ask_vcgencmd() -> str:
    """The tool's output. Raises SensorUnavailable with the reason."""
    try:
        done = subprocess.run(
            ["vcgencmd", "pmic_read_adc"], capture_output=True, text=True, timeout=_PMIC_TIMEOUT_S, check=True
        )
    except subprocess.TimeoutExpired:
        raise SensorUnavailable("pmic: vcgencmd did not answer in time") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip() or error.stdout.strip()
        raise SensorUnavailable(f"pmic: vcgencmd failed: {said}") from None
    except OSError as error:
        raise SensorUnavailable(f"pmic: vcgencmd cannot be run: {error.strerror}") from None
    return done.stdout


class PmicPower:
    """`pq_power,sensor=pmic` once a second: each reading starts a process."""

    name = "power"
    period_s = 1.0

    def __init__(self, ask: Callable[[], str] = ask_vcgencmd) -> None:
        self._ask = ask

    def read(self, now: Instant) -> Sequence[Sample]:
        """Watts as PMIC_METHOD says, the rails behind them, and the input's volts; no current is known."""
        watts, rails, input_v = parse_pmic(self._ask())
        fields: dict[str, FieldValue] = {"power_w": watts, "rail_count": rails}
        if input_v is not None:
            fields["voltage_v"] = input_v
        return [Sample("pq_power", fields, (("sensor", "pmic"), ("sensor_class", "pmic")))]


def find_pmic() -> Reader:
    """The PMIC where its tool is."""
    if shutil.which("vcgencmd") is None:
        return Missing("power", "vcgencmd is not installed: only a Raspberry Pi 5 has this PMIC")
    return PmicPower()
