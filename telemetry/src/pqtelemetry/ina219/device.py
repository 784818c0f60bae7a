"""Driver of one INA219: prove that it is one, set it up, take fresh readings. The clock is the caller's.

A reading says whether it is fresh (CNVR), whether it touched the end of the range, and whether the chip's own
arithmetic overflowed (OVF). A stale one is no reading: with it one conversion would count twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pqtelemetry.errors import TelemetryError
from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.bus import RegisterBus
from pqtelemetry.ina219.calibration import Calibration
from pqtelemetry.ina219.native import FastChip, NativeLoop

_SWAPPED_RESET: Final = (reg.CONFIG_AT_RESET & 0xFF) << 8 | reg.CONFIG_AT_RESET >> 8


class SensorRefused(TelemetryError):
    """What answers at this address is not a usable INA219 on a plausible rail."""

    code = "sensor_refused"
    hint = "check address, wiring and byte order; docs/HARDWARE.md shows both"


class Reading(NamedTuple):
    """One pair of conversions, calibrated. `clipped`: the shunt range ended below the true value, so current
    and power are lower bounds and the sample must not enter an energy."""

    voltage_v: float
    current_a: float
    power_w: float
    clipped: bool


@dataclass(frozen=True, slots=True)
class Rail:
    """What the measured rail may read at all; outside, wiring or board are not what they are said to be."""

    least_v: float = 4.5
    greatest_v: float = 5.5
    greatest_a: float = 5.0


class Ina219:
    """One chip behind a RegisterBus."""

    def __init__(self, bus: RegisterBus, calibration: Calibration, mode: reg.Mode) -> None:
        self._bus = bus
        self._calibration = calibration
        self.mode = mode
        self.greatest_current_a = mode.shunt_range_mv / 1e3 / calibration.shunt_ohm
        """Where the shunt range ends: 3.2 A for 0.1 Ω at ± 320 mV."""

    @property
    def fast(self) -> FastChip | None:
        """This chip for the native loop; None where only Python reads it."""
        return self._bus.fast

    def native_loop(self, start_ns: int, period_ns: int) -> NativeLoop | None:
        """The native loop over a schedule, in this chip's mode and calibration; None where there is none."""
        if self._bus.fast is None:
            return None
        return NativeLoop(start_ns, period_ns, self.mode, self._calibration)

    def identify(self) -> None:
        """Raise SensorRefused unless the registers behave as an INA219's do (§8.5.1, §8.6.2.1).

        There is no identity register. After a reset the configuration reads 0x399F, and bit 0 of the
        calibration register cannot be set; on a bus that swaps the bytes that bit appears to be bit 8.
        """
        before = self._bus.read(reg.CONFIG)
        self._bus.write(reg.CONFIG, reg.RESET)
        config = self._bus.read(reg.CONFIG)
        if config != reg.CONFIG_AT_RESET and (
            _SWAPPED_RESET in (before, config) or self._void_bit() == 0x0100
        ):
            raise SensorRefused(
                f"the configuration reads {config:#06x}: the two bytes of a word are swapped",
                code="byte_order",
                hint="the INA219 sends the high byte first; use this driver's bus",
            )
        if config != reg.CONFIG_AT_RESET:
            raise SensorRefused(
                f"the configuration reads {config:#06x} after a reset, an INA219's {reg.CONFIG_AT_RESET:#06x}"
            )
        if self._void_bit() != 0x0001:
            raise SensorRefused("bit 0 of the calibration register can be set: this is memory, not an INA219")

    def identify_memory(self) -> None:
        """The part of `identify` that registers without a chip behind them can pass: the byte order of the
        configuration. Only for a bus that is known and labelled to be a stub. Raises SensorRefused."""
        config = self._bus.read(reg.CONFIG)
        if config == _SWAPPED_RESET:
            raise SensorRefused("the two bytes of a word are swapped", code="byte_order")
        converts = config & reg.MODE_CONTINUOUS == reg.MODE_CONTINUOUS and not config & reg.UNUSED
        if not converts:
            raise SensorRefused(
                f"the configuration reads {config:#06x}: nothing plays an INA219 on this stub"
            )

    def _void_bit(self) -> int | None:
        """Which of the calibration register's two candidate bits cannot be set; None when both can."""
        for bit in (0x0001, 0x0100):
            self._bus.write(reg.CALIBRATION, bit)
            if self._bus.read(reg.CALIBRATION) == 0:
                return bit
        return None

    def set_up(self) -> None:
        """Program range, resolution and full scale. Raises SensorRefused when they do not read back."""
        calibration = reg.calibration_word(self.greatest_current_a, self._calibration.shunt_ohm)
        for register, word in ((reg.CALIBRATION, calibration), (reg.CONFIG, self.mode.config)):
            self._bus.write(register, word)
            read = self._bus.read(register)
            if read != word:
                raise SensorRefused(f"register {register} was set to {word:#06x} and reads {read:#06x}")

    def look_for(self) -> None:
        """Find the bus again where it went away meanwhile. Raises BusError."""
        self._bus.refresh()

    def is_set_up(self) -> bool:
        """Does the chip still hold its mode? A brown-out resets it to another range without a word."""
        return self._bus.read(reg.CONFIG) == self.mode.config

    def take(self) -> Reading | None:
        """A fresh reading, or None when no conversion has finished since the last one. Raises BusError."""
        status = self._bus.read(reg.BUS)
        if not status & reg.READY:
            return None
        shunt = self._bus.read(reg.SHUNT)
        self._bus.read(reg.POWER)  # clears CNVR (§8.6.3.2)
        voltage_v = self._calibration.voltage_v(reg.bus_volts(status))
        current_a = self._calibration.current_a(reg.shunt_volts(shunt) / self._calibration.shunt_ohm)
        clipped = reg.is_full_scale(shunt, self.mode.shunt_range_mv) or bool(status & reg.OVERFLOW)
        return Reading(voltage_v, current_a, voltage_v * current_a, clipped)


def check_plausible(readings: list[Reading], rail: Rail) -> None:
    """Raise SensorRefused for readings that no live sensor on this rail gives.

    At least 20 readings. The published runs read 3.4–3.9 V on a 5 V rail, and printed watts all the same.
    """
    if len(readings) < 20:
        raise SensorRefused(f"{len(readings)} fresh readings at start, 20 are needed: it does not convert")
    volts = sorted(reading.voltage_v for reading in readings)
    middle_v = volts[len(volts) // 2]
    if not rail.least_v <= middle_v <= rail.greatest_v:
        raise SensorRefused(
            f"the rail reads {middle_v:.2f} V, {rail.least_v} to {rail.greatest_v} V is plausible",
            code="implausible_voltage",
            hint="IN− goes to the load's side of the shunt; share the ground",
        )
    amps = [reading.current_a for reading in readings]
    if max(amps) > rail.greatest_a or sorted(amps)[len(amps) // 2] <= 0:
        raise SensorRefused(
            f"the current reads {min(amps):.3f} to {max(amps):.3f} A, 0 to {rail.greatest_a} A is plausible",
            code="implausible_current",
            hint="swap IN+ and IN− when it is negative; check the shunt's value",
        )
    if len({(reading.voltage_v, reading.current_a) for reading in readings}) == 1:
        raise SensorRefused(
            f"{len(readings)} readings are all exactly {readings[0].power_w:.4f} W: a live sensor has noise",
            code="constant_sensor",
            hint="a stub, a stuck chip or a disconnected shunt; i2cdetect -y BUS",
        )
