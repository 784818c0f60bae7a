"""A software INA219 behind the same bus interface: conversion timing, ranges, flags, registers (SBOS448G).

Time is a parameter, so it runs in virtual time in tests and in real time on the emulated bus. It is marked
wherever it is used: nothing it gives is a measurement.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.bus import BusError

NOISE_POINTS: Final = 65_536
"""Even: each conversion takes two."""
Load = Callable[[float], tuple[float, float]]
"""(volts, amps) of the rail at a time in seconds."""


def normal_noise(seed: int) -> list[float]:
    """The model's noise drawn ahead, for the native one: half a minute of it at 1 kHz."""
    rng = random.Random(seed)
    return [rng.gauss(0.0, 1.0) for _ in range(NOISE_POINTS)]


@dataclass(frozen=True, slots=True)
class Imperfection:
    """What a real board does to the truth. Gains and offsets act on the converter's input."""

    current_gain: float = 1.0
    shunt_offset_v: float = 0.0
    voltage_gain: float = 1.0
    shunt_noise_v: float = 10e-6
    bus_noise_v: float = 4e-3
    conversion_scale: float = 1.0
    """Actual over typical conversion time."""


@dataclass
class Ina219Model:
    """Registers that follow `load` in continuous conversion. `now_s` is read at every access."""

    load: Load
    now_s: Callable[[], float]
    shunt_ohm: float = 0.1
    imperfection: Imperfection = field(default_factory=Imperfection)
    seed: int = 1
    steps: int = 8
    """Points of the load that one conversion averages; the converter integrates (§8.3.1)."""

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.unplugged = False
        self.conversions = 0
        self._reset()

    def _reset(self) -> None:
        self._config = reg.CONFIG_AT_RESET
        self._decode()
        self._calibration = 0
        self._restart()
        self._shunt = self._bus = self._current = self._power = 0
        self._overflow = False

    def _decode(self) -> None:
        # once a setting and not once an access, for the same reason
        self._mode = reg.Mode.from_config(self._config)
        self._cycle_s = self._mode.typical_conversion_us * self.imperfection.conversion_scale / 1e6

    def _restart(self) -> None:
        self._ready = False
        self._cycle_start_s = self.now_s()

    # ------------------------------------------------------------------ the bus interface

    def read(self, register: int) -> int:
        """0 to 65535; raises BusError while unplugged."""
        self._bring_up_to_date()
        if register == reg.BUS:
            return self._bus << 3 | self._ready << 1 | self._overflow
        if register == reg.SHUNT:
            return self._shunt
        if register == reg.POWER:
            self._ready = False
            return self._power
        if register == reg.CONFIG:
            return self._config
        if register == reg.CURRENT:
            return self._current & 0xFFFF
        if register == reg.CALIBRATION:
            return self._calibration
        raise BusError("I²C read failed: no such register")

    def write(self, register: int, word: int) -> None:
        """Configuration and calibration take a value, the rest is read-only. Raises BusError unplugged."""
        self._bring_up_to_date()
        if register == reg.CONFIG:
            if word & reg.RESET:
                self._reset()
            else:
                self._config = word
                if word & 0b111 == reg.MODE_CONTINUOUS:
                    self._decode()
                self._restart()
        elif register == reg.CALIBRATION:
            self._calibration = word & 0xFFFE

    def refresh(self) -> None:
        """Nothing to find: it is in this process."""

    @property
    def fast(self) -> None:
        """Its time is a parameter, so it is read in Python alone."""

    # ------------------------------------------------------------------ the converter

    def _bring_up_to_date(self) -> None:
        """Finish every cycle that has ended by now; only the last one's values stay."""
        if self.unplugged:
            raise BusError("I²C transfer failed: Remote I/O error")
        cycle_s = self._cycle_s
        since_s = self.now_s() - self._cycle_start_s
        if since_s < cycle_s or self._config & 0b111 != reg.MODE_CONTINUOUS:
            return
        finished = int(since_s / cycle_s)
        start_s = self._cycle_start_s + (finished - 1) * cycle_s
        self._cycle_start_s += finished * cycle_s
        self.conversions += finished
        self._convert(start_s, cycle_s / 2)

    def _convert(self, start_s: float, half_s: float) -> None:
        """One cycle that began at `start_s`: the shunt in its first half, the bus in its second."""
        mode, flaw = self._mode, self.imperfection
        amps = self._mean(start_s, half_s, 1)
        volts = self._mean(start_s + half_s, half_s, 0)
        shunt_v = amps * self.shunt_ohm * flaw.current_gain + flaw.shunt_offset_v
        shunt_v += self._rng.gauss(0.0, 1.0) * flaw.shunt_noise_v
        bus_v = volts * flaw.voltage_gain + self._rng.gauss(0.0, 1.0) * flaw.bus_noise_v
        self._shunt = reg.shunt_word(shunt_v, mode.shunt_range_mv)
        self._bus = reg.bus_word(bus_v, mode.bus_range_v, ready=False, overflow=False) >> 3
        signed = self._shunt - 0x1_0000 if self._shunt & 0x8000 else self._shunt
        current = reg.current_counts(signed, self._calibration)
        power = abs(current) * self._bus // 5000
        self._overflow = not -0x8000 <= current <= 0x7FFF or power > 0xFFFF
        self._current = max(-0x8000, min(0x7FFF, current))
        self._power = min(0xFFFF, power)
        self._ready = True

    def _mean(self, start_s: float, length_s: float, which: int) -> float:
        step_s, total = length_s / self.steps, 0.0
        t_s = start_s + step_s / 2
        for _ in range(self.steps):
            total += self.load(t_s)[which]
            t_s += step_s
        return total / self.steps
