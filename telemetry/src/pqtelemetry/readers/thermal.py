"""Temperatures (thermal zones, hwmon), core frequency and throttle flags, where the host has them.

Kernel documents: thermal/sysfs-api, hwmon/sysfs-interface (both millidegrees Celsius), cpu-freq (kHz).
A zone that cannot be read is a gap with a reason; 0 °C is never written for "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import SensorUnavailable
from pqtelemetry.line import Sample, tag_text
from pqtelemetry.procfile import ProcFile, read_text
from pqtelemetry.readers.base import Instant, Missing, Reader

_PLAUSIBLE_C = (-55.0, 150.0)
_THROTTLED = (
    "sys/devices/platform/soc*:firmware/get_throttled",
    "sys/devices/platform/*/soc*:firmware/get_throttled",
)
"""soc/soc:firmware, on a Pi 5 soc@107c000000:firmware, below one parent or another."""


class Temperature:
    """`pq_temp,zone=Z` temperature_c of one zone or one hwmon input."""

    period_s = 0.0

    def __init__(self, zone: str, path: Path) -> None:
        self.zone = tag_text(zone)
        self.name = f"thermal:{self.zone}"
        self._file = ProcFile(path)

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample; raises SensorUnavailable for an unreadable or implausible value."""
        text = self._file.read().strip()
        try:
            celsius = int(text) / 1000.0
        except ValueError:
            raise SensorUnavailable(f"{self.zone}: {text!r} is no temperature") from None
        if not _PLAUSIBLE_C[0] <= celsius <= _PLAUSIBLE_C[1]:
            raise SensorUnavailable(f"{self.zone}: {celsius} °C is not plausible")
        return [Sample("pq_temp", {"temperature_c": celsius}, (("zone", self.zone),))]


def find_temperatures(root: Path) -> list[Reader]:
    """One reader a zone, or one `Missing`; zone names carry the device's number, so they are unique."""
    found: list[Reader] = []
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        if (folder / "temp").exists():
            kind = read_text(folder / "type") or "unknown"
            found.append(Temperature(f"{folder.name}-{kind}", folder / "temp"))
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = read_text(folder / "name") or "unknown"
        for path in sorted(folder.glob("temp*_input")):
            channel = path.name.removesuffix("_input")
            label = read_text(folder / f"{channel}_label")
            parts = [folder.name, chip, channel, *([label] if label else [])]
            found.append(Temperature("-".join(parts), path))
    return found or [Missing("thermal", "this host has no thermal zone and no hwmon temperature")]


class Frequency:
    """`pq_freq,cpu=N` frequency_mhz, once a second: on x86 a reading wakes the core it asks."""

    name = "frequency"
    period_s = 1.0

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = {cpu: ProcFile(path) for cpu, path in files.items()}

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample a core."""
        return [
            Sample("pq_freq", {"frequency_mhz": int(file.read()) / 1000.0}, (("cpu", cpu),))
            for cpu, file in self._files.items()
        ]


def find_frequency(root: Path) -> Reader:
    """cpufreq of each core, or `Missing`; "cpu MHz" of a virtual machine is a nominal value and not used."""
    paths = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    files = {path.parent.parent.name.removeprefix("cpu"): path for path in paths}
    return Frequency(files) if files else Missing("frequency", "this host has no cpufreq")


class Throttle:
    """`pq_throttle` flags: the Raspberry Pi firmware's bit field (bit 0 under-voltage … bit 19)."""

    name = "throttle"
    period_s = 1.0

    def __init__(self, path: Path) -> None:
        self._file = ProcFile(path)

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample."""
        text = self._file.read().strip()
        try:
            return [Sample("pq_throttle", {"flags": int(text, 16)})]
        except ValueError:
            raise SensorUnavailable(f"{text!r} is no throttle bit field") from None


def find_throttle(root: Path) -> Reader:
    """Throttle flags where the firmware driver shows them."""
    paths = [path for pattern in _THROTTLED for path in sorted(root.glob(pattern))]
    return Throttle(paths[0]) if paths else Missing("throttle", "no Raspberry Pi firmware driver")
