"""The native inner loop (`telemetry/native`) where it is installed: a tenth of a second's samples at a time.

Without it `pqtelemetry.power.loop` takes every sample in Python: the same schedule, records and counts at
more than twice the processor time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pqtelemetry.errors import TelemetryError
from pqtelemetry.ina219 import registers as reg

if TYPE_CHECKING:
    from pqtelemetry.ina219.calibration import Calibration
    from pqtelemetry.schedule import Schedule

try:
    import pq_sampler
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


@dataclass(frozen=True, slots=True)
class FastChip:
    """A chip's registers for the native loop, and how its transfers are named in a reason."""

    registers: pq_sampler.Model | pq_sampler.I2c
    address: int | None = None

    def read_failed(self, errno: int) -> str:
        """The words of the same failure on the Python side."""
        return f"I²C read at {self.address or 0:#04x} failed: {os.strerror(errno)}"


class NativeModel:
    """The software INA219 of the native loop as a register bus: 5.1 V; 0.6 A and 1.0 A in turn, in real time.

    noise: standard normal numbers, an even count.
    """

    def __init__(self, shunt_ohm: float, noise: Sequence[float]) -> None:
        self._model = pq_sampler.Model(shunt_ohm, noise)
        self.fast: FastChip | None = FastChip(self._model)

    def read(self, register: int) -> int:
        """0 to 65535."""
        return int(self._model.read(register))

    def write(self, register: int, word: int) -> None:
        """Configuration and calibration take a value."""
        self._model.write(register, word)

    def refresh(self) -> None:
        """Nothing to find: it is in this process."""


def fast_i2c(path: str, address: int) -> FastChip | None:
    """The chip for the native loop; None without that loop, or where it cannot have the node: then the Python
    loop reads, and its transfers say why they fail."""
    if not AVAILABLE:
        return None
    try:
        return FastChip(pq_sampler.I2c(path, address), address)
    except OSError:
        return None


def wake_up(schedule: Schedule, count: int) -> int:
    """Meet `count` deadlines with the native loop's wait and take no sample; returns how many began within
    half a millisecond. Raises TelemetryError when the kernel gives no timer."""
    try:
        pace = pq_sampler.Pace(schedule.start_ns, schedule.period_ns)
        block = pace.block(None, None, schedule.next_index, schedule.next_index + count)
    except OSError as error:
        raise TelemetryError(f"the kernel's timer failed: {error.strerror}") from error
    schedule.pass_over(block.next_index, block.got_count, block.late_count, block.lost_count)
    return int(block.within_half_ms_count)


class NativeLoop:
    """Blocks of samples on one schedule."""

    def __init__(self, start_ns: int, period_ns: int, mode: reg.Mode, calibration: Calibration) -> None:
        """Raises TelemetryError when the kernel gives no timer."""
        try:
            self._pace = pq_sampler.Pace(start_ns, period_ns)
        except OSError as error:
            raise TelemetryError(f"the kernel gives no timer: {error.strerror}") from error
        current, voltage = calibration.current, calibration.voltage
        self._scale = pq_sampler.Scale(
            calibration.shunt_ohm,
            mode.shunt_range_mv,
            (current.gain, current.offset),
            (voltage.gain, voltage.offset),
        )

    def block(self, chip: FastChip, from_index: int, end_index: int) -> pq_sampler.Block:
        """Deadlines from one index up to another; sooner back at a signal or a failed transfer (`failure`).

        Raises TelemetryError when a timer fails.
        """
        try:
            return self._pace.block(chip.registers, self._scale, from_index, end_index)
        except OSError as error:
            raise TelemetryError(f"the kernel's timer failed: {error.strerror}") from error
