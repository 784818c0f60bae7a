"""Registers of the INA219 as integers and back (SBOS448G §8.6). Sans-IO.

A register is 16 bits, most significant byte first on the wire; `bus` deals with that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pqtelemetry.errors import UsageError

CONFIG: Final = 0x00
SHUNT: Final = 0x01
BUS: Final = 0x02
POWER: Final = 0x03
CURRENT: Final = 0x04
CALIBRATION: Final = 0x05

RESET: Final = 0x8000
CONFIG_AT_RESET: Final = 0x399F
"""What the configuration register holds after power-on or reset (§8.6.2.1)."""
UNUSED: Final = 0xC000
"""Bits of the configuration that read 0 in every mode: reset, and the one beside it."""
MODE_CONTINUOUS: Final = 0b111
"""Shunt and bus voltage, one conversion after the other, without end."""

SHUNT_LSB_V: Final = 10e-6
BUS_LSB_V: Final = 4e-3
READY: Final = 0b10
"""CNVR of the bus register: conversions are complete; cleared by reading the power register."""
OVERFLOW: Final = 0b01
"""OVF of the bus register: current or power is out of the calibrated range."""

_GAINS: Final = {40: 0b00, 80: 0b01, 160: 0b10, 320: 0b11}
# Field value, typical and greatest conversion time of one channel in µs (§7.5, Table 5; the greatest of an
# average is that of the 12-bit conversions it repeats).
_ADC: Final = {
    "9bit": (0b0000, 84.0, 93.0),
    "10bit": (0b0001, 148.0, 163.0),
    "11bit": (0b0010, 276.0, 304.0),
    "12bit": (0b0011, 532.0, 586.0),
    "avg2": (0b1001, 1_060.0, 2 * 586.0),
    "avg4": (0b1010, 2_130.0, 4 * 586.0),
    "avg8": (0b1011, 4_260.0, 8 * 586.0),
    "avg16": (0b1100, 8_510.0, 16 * 586.0),
    "avg32": (0b1101, 17_020.0, 32 * 586.0),
    "avg64": (0b1110, 34_050.0, 64 * 586.0),
    "avg128": (0b1111, 68_100.0, 128 * 586.0),
}
ADC_MODES: Final = tuple(_ADC)


@dataclass(frozen=True, slots=True)
class Mode:
    """Ranges and resolution of both channels. Raises UsageError for a value that the chip does not have.

    bus_range_v: 16 or 32; shunt_range_mv: 40, 80, 160 or 320; adc: one of ADC_MODES, for both channels.
    """

    bus_range_v: int = 16
    shunt_range_mv: int = 320
    adc: str = "9bit"

    def __post_init__(self) -> None:
        if self.bus_range_v not in (16, 32):
            raise UsageError(f"INA219 bus range {self.bus_range_v} V: 16 or 32")
        if self.shunt_range_mv not in _GAINS:
            raise UsageError(f"INA219 shunt range {self.shunt_range_mv} mV: 40, 80, 160 or 320")
        if self.adc not in _ADC:
            raise UsageError(f"INA219 resolution {self.adc!r}: one of {', '.join(ADC_MODES)}")

    @property
    def config(self) -> int:
        """The configuration register, both channels converting without end."""
        field = _ADC[self.adc][0]
        wide = int(self.bus_range_v == 32)
        return wide << 13 | _GAINS[self.shunt_range_mv] << 11 | field << 7 | field << 3 | MODE_CONTINUOUS

    @property
    def typical_conversion_us(self) -> float:
        """Shunt and bus conversion, one after the other, typical."""
        return 2 * _ADC[self.adc][1]

    @property
    def greatest_conversion_us(self) -> float:
        """The same, at the slowest the data sheet allows."""
        return 2 * _ADC[self.adc][2]

    @property
    def greatest_rate_hz(self) -> float:
        """Fresh samples a second that even the slowest chip delivers."""
        return 1e6 / self.greatest_conversion_us

    @classmethod
    def from_config(cls, word: int) -> Mode:
        """Inverse of `config`. Raises UsageError when the two channels differ or the field is undefined."""
        bus_field, shunt_field = word >> 7 & 0xF, word >> 3 & 0xF
        if bus_field != shunt_field:
            raise UsageError(f"configuration {word:#06x}: the channels have different resolutions")
        # Bit 2 of the field is ignored below 12 bit (Table 5): 0X00 is 9 bit, 0X11 is 12 bit.
        plain = bus_field if bus_field & 0b1000 else bus_field & 0b0011
        adc = "12bit" if plain == 0b1000 else next(n for n, row in _ADC.items() if row[0] == plain)
        gain = next(mv for mv, code in _GAINS.items() if code == word >> 11 & 0b11)
        return cls(32 if word & 0x2000 else 16, gain, adc)


def rate_modes(rate_hz: float) -> list[str]:
    """Resolutions whose fresh samples keep up with `rate_hz`, the finest first."""
    fits = [name for name in ADC_MODES if Mode(adc=name).greatest_rate_hz >= rate_hz]
    return fits[::-1]


def shunt_volts(word: int) -> float:
    """Shunt voltage in V from its register: two's complement, 10 µV a bit in every range (§8.6.3.1)."""
    return (word - 0x1_0000 if word & 0x8000 else word) * SHUNT_LSB_V


def shunt_word(volts: float, range_mv: int) -> int:
    """Register content of a shunt voltage, limited to the range as the converter is."""
    full_scale = range_mv * 100
    counts = max(-full_scale, min(full_scale, round(volts / SHUNT_LSB_V)))
    return counts & 0xFFFF


def is_full_scale(word: int, range_mv: int) -> bool:
    """Does the shunt reading touch the end of its range, so that the true value may lie beyond?"""
    signed = word - 0x1_0000 if word & 0x8000 else word
    return abs(signed) >= range_mv * 100


def bus_volts(word: int) -> float:
    """Bus voltage in V: 13 bits from bit 3 on, 4 mV a bit (§8.6.3.2)."""
    return (word >> 3) * BUS_LSB_V


def bus_word(volts: float, range_v: int, *, ready: bool, overflow: bool) -> int:
    """Register content of a bus voltage with its two flags."""
    counts = max(0, min(range_v * 250, round(volts / BUS_LSB_V)))
    return counts << 3 | (READY if ready else 0) | (OVERFLOW if overflow else 0)


def calibration_word(greatest_current_a: float, shunt_ohm: float) -> int:
    """Calibration register for that full scale: trunc(0.04096 / (current LSB × shunt)), bit 0 void (§8.5.1).

    Raises UsageError when it does not fit 16 bits.
    """
    current_lsb_a = greatest_current_a / 32_768
    word = int(0.04096 / (current_lsb_a * shunt_ohm))
    if not 2 <= word <= 0xFFFF:
        raise UsageError(
            f"no calibration register for {greatest_current_a} A over {shunt_ohm} Ω: {word} is not 2 to 65535"
        )
    return word & 0xFFFE


def current_counts(shunt_counts: int, calibration: int) -> int:
    """Current register as the chip computes it: shunt × calibration / 4096, unlimited (§8.5.1)."""
    return int(shunt_counts * calibration / 4096)
