"""INA219: register arithmetic by the data sheet, the driver on the model, and what is refused."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pqtelemetry.errors import UsageError
from pqtelemetry.ina219 import registers as reg
from pqtelemetry.ina219.bus import BusError, sensor_class
from pqtelemetry.ina219.calibration import Calibration, CalibrationError, Line, fit
from pqtelemetry.ina219.device import Ina219, Rail, Reading, SensorRefused, check_plausible
from pqtelemetry.ina219.model import Imperfection, Ina219Model

EXACT = Imperfection(shunt_noise_v=0.0, bus_noise_v=0.0)
IDENTITY = Calibration(
    "bench-1", "B", 0.1, "2026-01-01", "known loads", Line(1, 0, 0.001, 9), Line(1, 0, 0.002, 9)
)


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.t_s = 0.0

    def __call__(self) -> float:
        return self.t_s


def made(amps: float = 0.8, volts: float = 5.0, **flaws: float) -> tuple[Ina219Model, Hand]:
    hand = Hand()
    model = Ina219Model(lambda _t: (volts, amps), hand, imperfection=replace(EXACT, **flaws))
    return model, hand


# SBOS448G §8.6.3.1: at ÷8 full scale +320 mV is 0x7D00, −320 mV is 0x8300; Table 7 lists more.
@pytest.mark.parametrize(
    ("volts", "word"), [(0.320, 0x7D00), (-0.320, 0x8300), (0.0, 0), (0.00001, 1), (-0.00001, 0xFFFF)]
)
def test_shunt_register_as_in_the_data_sheet(volts: float, word: int) -> None:
    assert reg.shunt_word(volts, 320) == word
    assert reg.shunt_volts(word) == pytest.approx(volts)


def test_calibration_and_current_by_the_data_sheets_equations() -> None:
    # §8.5.1: trunc(0.04096 / (97.65625 µA × 0.1 Ω)), bit 0 void; current = shunt × calibration / 4096.
    assert reg.calibration_word(3.2, 0.1) == 4194
    assert reg.current_counts(8000, 4096) == 8000
    assert reg.current_counts(-32000, 4194) == -32765


def test_reset_value_is_the_documented_mode() -> None:
    assert reg.Mode.from_config(reg.CONFIG_AT_RESET) == reg.Mode(32, 320, "12bit")
    assert reg.Mode(32, 320, "12bit").config == reg.CONFIG_AT_RESET


@given(st.sampled_from([16, 32]), st.sampled_from([40, 80, 160, 320]), st.sampled_from(reg.ADC_MODES))
def test_mode_and_register_are_inverse(bus_range_v: int, shunt_range_mv: int, adc: str) -> None:
    mode = reg.Mode(bus_range_v, shunt_range_mv, adc)
    assert reg.Mode.from_config(mode.config) == mode


def test_a_kilohertz_needs_eleven_bits_or_less() -> None:
    assert reg.rate_modes(1000) == ["11bit", "10bit", "9bit"]
    assert reg.Mode(adc="12bit").greatest_rate_hz == pytest.approx(853.2, abs=0.1)


def test_a_mode_the_chip_does_not_have_is_refused() -> None:
    for wrong in ({"bus_range_v": 24}, {"shunt_range_mv": 100}, {"adc": "13bit"}):
        with pytest.raises(UsageError):
            reg.Mode(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no calibration register"):
        reg.calibration_word(1000.0, 1.0)


def test_a_fresh_reading_comes_once_a_conversion() -> None:
    model, hand = made()
    chip = Ina219(model, IDENTITY, reg.Mode())
    chip.identify()
    chip.set_up()
    assert chip.take() is None, "nothing has been converted yet"
    hand.t_s += 170e-6
    reading = chip.take()
    assert reading is not None
    assert (reading.voltage_v, reading.current_a) == (pytest.approx(5.0), pytest.approx(0.8))
    assert reading.power_w == pytest.approx(4.0) and not reading.clipped
    assert chip.take() is None, "the same conversion is not a second reading"
    hand.t_s += 170e-6
    assert chip.take() is not None


def test_above_the_range_a_reading_is_marked_and_not_believed() -> None:
    model, hand = made(amps=3.5)
    chip = Ina219(model, IDENTITY, reg.Mode(shunt_range_mv=320))
    assert chip.greatest_current_a == pytest.approx(3.2)
    chip.set_up()
    hand.t_s += 1e-3
    reading = chip.take()
    assert reading is not None and reading.clipped and reading.current_a == pytest.approx(3.2)


def test_a_brown_out_is_noticed() -> None:
    model, _ = made()
    chip = Ina219(model, IDENTITY, reg.Mode())
    chip.set_up()
    assert chip.is_set_up()
    model.write(reg.CONFIG, reg.RESET)
    assert not chip.is_set_up()


def test_an_unplugged_chip_is_an_error_and_no_number() -> None:
    model, hand = made()
    chip = Ina219(model, IDENTITY, reg.Mode())
    chip.set_up()
    hand.t_s += 1e-3
    model.unplugged = True
    with pytest.raises(BusError, match="Remote I/O"):
        chip.take()


class Swapped:
    """A bus that forgot to put the bytes right."""

    def __init__(self, model: Ina219Model) -> None:
        self._model = model

    def read(self, register: int) -> int:
        word = self._model.read(register)
        return (word & 0xFF) << 8 | word >> 8

    def write(self, register: int, word: int) -> None:
        self._model.write(register, (word & 0xFF) << 8 | word >> 8)


class Memory:
    """Registers that hold whatever was written, as i2c-stub's do."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}

    def read(self, register: int) -> int:
        return self.words.get(register, 0)

    def write(self, register: int, word: int) -> None:
        self.words[register] = reg.CONFIG_AT_RESET if word == reg.RESET else word


def test_what_is_not_an_ina219_is_refused() -> None:
    model, _ = made()
    with pytest.raises(SensorRefused, match="swapped") as swapped:
        Ina219(Swapped(model), IDENTITY, reg.Mode()).identify()
    assert swapped.value.code == "byte_order"
    with pytest.raises(SensorRefused, match="memory, not an INA219"):
        Ina219(Memory(), IDENTITY, reg.Mode()).identify()

    class Nothing(Memory):
        def read(self, register: int) -> int:
            return 0xFFFF

    with pytest.raises(SensorRefused, match="0xffff"):
        Ina219(Nothing(), IDENTITY, reg.Mode()).identify()


def readings(volts: float, amps: float, spread: float, n: int = 40) -> list[Reading]:
    rng = random.Random(1)
    rows = [(volts + rng.gauss(0, spread), amps + rng.gauss(0, spread / 5)) for _ in range(n)]
    return [Reading(v, a, v * a, False) for v, a in rows]


@pytest.mark.parametrize(
    ("taken", "code"),
    [
        (readings(3.6, 0.9, 0.004), "implausible_voltage"),
        (readings(5.0, -0.8, 0.004), "implausible_current"),
        (readings(5.0, 9.0, 0.004), "implausible_current"),
        (readings(5.0, 0.8, 0.0), "constant_sensor"),
        (readings(5.0, 0.8, 0.004, n=5), "sensor_refused"),
    ],
)
def test_implausible_readings_are_refused(taken: list[Reading], code: str) -> None:
    with pytest.raises(SensorRefused) as refused:
        check_plausible(taken, Rail())
    assert refused.value.code == code


def test_plausible_readings_pass() -> None:
    check_plausible(readings(5.05, 0.7, 0.004), Rail())


def test_calibration_undoes_a_boards_flaws(tmp_path: Path) -> None:
    truths_a = [0.1, 0.3, 0.6, 0.9, 1.5, 2.5]
    seen_a = []
    for amps in truths_a:
        model, hand = made(amps=amps, current_gain=1.03, shunt_offset_v=2e-4)
        chip = Ina219(model, IDENTITY, reg.Mode(adc="12bit"))
        chip.set_up()
        hand.t_s += 0.01
        taken = chip.take()
        assert taken is not None
        seen_a.append(taken.current_a)
    line = fit(seen_a, truths_a)
    assert line.gain == pytest.approx(1 / 1.03, rel=1e-3) and line.offset == pytest.approx(2e-3, rel=0.1)
    calibration = replace(IDENTITY, current=line)
    for seen, truth in zip(seen_a, truths_a, strict=True):
        assert calibration.current_a(seen) == pytest.approx(truth, abs=2e-4)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(calibration.to_json()))
    assert Calibration.load(path) == calibration
    path.write_text(path.read_text().replace("0.97", "9.7"))
    with pytest.raises(CalibrationError, match="implausible"):
        Calibration.load(path)


def test_a_line_needs_three_loads_and_a_grade_must_exist() -> None:
    with pytest.raises(CalibrationError):
        fit([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(CalibrationError):
        Calibration.assumed("C", 0.1, 1.0)
    assert "assumed" in Calibration.assumed("A", 0.1, 1.0).method


def test_an_uncalibrated_sensor_is_as_uncertain_as_its_data_sheet_says() -> None:
    """SBOS448G §7.5 over temperature: current 1 % (A), 0.5 % (B); voltage 1 %, shunt 1 %. By hand."""
    # A: √((1² + 1² + 1²) / 3) = 1 %; B: √((0.5² + 1² + 1²) / 3) = √0.75 % = 0.8660 %
    for grade, percent in (("A", 1.0), ("B", 0.866025)):
        assumed = Calibration.assumed(grade, 0.1, 1.0)
        for volts, amps in ((5.0, 1.0), (5.0, 2.0), (5.2, 0.3), (12.0, 3.0)):
            assert 100 * assumed.power_relative_u(volts, amps) == pytest.approx(percent, rel=1e-5), (
                volts,
                amps,
            )
    fitted = replace(IDENTITY, current=Line(1, 0, 0.002, 9), voltage=Line(1, 0, 0.004, 9, 0.0057735))
    # residual 2 mA of 2 A and 4 mV of 5 V, gain of the voltage unknown: √(0.1² + 0.08² + 0.57735²) %
    assert 100 * fitted.power_relative_u(5.0, 2.0) == pytest.approx(0.59139, rel=1e-4)


def test_a_stub_adapter_is_never_called_a_chip(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/i2c/devices/i2c-7"
    folder.mkdir(parents=True)
    (folder / "name").write_text("SMBus stub driver\n")
    assert sensor_class(7, tmp_path) == "stub-bus"
    (folder / "name").write_text("bcm2835 (i2c@7e804000)\n")
    assert sensor_class(7, tmp_path) == "chip"
    assert sensor_class(8, tmp_path) == "stub-bus", "no name proves nothing"
