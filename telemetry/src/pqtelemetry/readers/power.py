"""Power, only from a sensor that was asked for by name.

`none` (the default) is null with its reason. `ina219`, `ina219-stub` and `model` are sampled fast by a child
process; `hwmon` and `pmic` are read here. `synthetic` is a deterministic function of a seed and the
sample's index, for testing the pipeline: every point says synthetic=true; it knows nothing about the load.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from pqtelemetry.errors import UsageError
from pqtelemetry.line import Sample
from pqtelemetry.power.resident import FastPower, command_line
from pqtelemetry.power.settings import SENSORS as FAST_SENSORS
from pqtelemetry.power.settings import PowerSettings
from pqtelemetry.readers.base import Instant, Missing, Reader
from pqtelemetry.readers.boardpower import find_hwmon_power, find_pmic

POWER_SENSORS = ("none", "synthetic", "hwmon", "pmic", *FAST_SENSORS)


class SyntheticPower:
    """`pq_power,sensor=synthetic,synthetic=true`: power_w = voltage_v × current_a, from (seed, index)."""

    name = "power"
    period_s = 0.0

    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(8, "big", signed=True)

    def read(self, now: Instant) -> Sequence[Sample]:
        """One sample: about 5.0 V, and 0.6 A with a slow swing of 0.1 A and noise."""
        digest = hashlib.blake2b(now.index.to_bytes(8, "big"), key=self._key, digest_size=8).digest()
        noise_v = int.from_bytes(digest[:4], "big") / 2**32 - 0.5
        noise_a = int.from_bytes(digest[4:], "big") / 2**32 - 0.5
        voltage_v = round(5.0 + 0.04 * noise_v, 4)
        current_a = round(0.6 + 0.1 * math.sin(now.index / 50.0) + 0.02 * noise_a, 4)
        fields = {"power_w": voltage_v * current_a, "voltage_v": voltage_v, "current_a": current_a}
        return [Sample("pq_power", fields, (("sensor", "synthetic"), ("synthetic", "true")))]


def find_power(
    sensor: str, seed: int, root: Path = Path("/"), settings: Path | None = None, raw: Path | None = None
) -> list[Reader]:
    """The readers for a sensor's name; raises UsageError for a name that does not exist.

    `raw` is the file of a fast sensor; without it (`facts`) such a sensor is not started.
    """
    if sensor == "none":
        return [Missing("power", "no power sensor was asked for (--power none)")]
    if sensor == "synthetic":
        return [SyntheticPower(seed)]
    if sensor == "hwmon":
        return find_hwmon_power(root, PowerSettings.named(sensor, settings).shunt_ohm)
    if sensor == "pmic":
        return [find_pmic()]
    if sensor in FAST_SENSORS:
        if sys.platform == "win32":
            return [Missing("power", "the fast power sampler runs on Linux alone")]
        if raw is None:
            return [Missing("power", "the fast power sampler was not started")]
        return [FastPower(command_line(sensor, settings, raw))]
    raise UsageError(f"unknown power sensor {sensor!r}; known: {', '.join(POWER_SENSORS)}")
