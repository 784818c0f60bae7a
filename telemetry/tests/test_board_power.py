"""hwmon drivers and the PMIC from recorded texts; calibration from known loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pqtelemetry.errors import SensorUnavailable, UsageError
from pqtelemetry.ina219.calibration import Calibration, CalibrationError
from pqtelemetry.ina219.device import SensorRefused
from pqtelemetry.power import calibrate
from pqtelemetry.power.command import open_sensor
from pqtelemetry.power.settings import PowerSettings
from pqtelemetry.readers.base import Instant, Missing
from pqtelemetry.readers.boardpower import PmicPower, find_hwmon_power, parse_pmic
from pqtelemetry.readers.power import find_power

NOW = Instant(0, 0, 0)
# `vcgencmd pmic_read_adc` of a Pi 5 at rest.
PMIC = """   3V7_WL_SW_A current(0)=0.00390372A
     3V3_SYS_A current(1)=0.05953173A
     1V8_SYS_A current(2)=0.16980520A
    DDR_VDD2_A current(3)=0.02342205A
    DDR_VDDQ_A current(4)=0.00000000A
     1V1_SYS_A current(5)=0.18640110A
      0V8_SW_A current(6)=0.34352340A
    VDD_CORE_A current(7)=0.77484000A
     3V3_DAC_A current(17)=0.00006105A
     3V3_ADC_A current(18)=0.00012210A
     0V8_AON_A current(16)=0.00549450A
        HDMI_A current(22)=0.01220400A
   3V7_WL_SW_V volt(8)=3.71702700V
     3V3_SYS_V volt(9)=3.31384200V
     1V8_SYS_V volt(10)=1.79853800V
    DDR_VDD2_V volt(11)=1.11501400V
    DDR_VDDQ_V volt(12)=0.60622810V
     1V1_SYS_V volt(13)=1.10769500V
      0V8_SW_V volt(14)=0.80769190V
    VDD_CORE_V volt(15)=0.72012440V
     3V3_DAC_V volt(20)=3.30891000V
     3V3_ADC_V volt(21)=3.30555300V
     0V8_AON_V volt(19)=0.80109890V
        HDMI_V volt(23)=5.08560000V
       EXT5V_V volt(24)=5.08500000V
        BATT_V volt(25)=0.00000000V
"""


def test_the_pmics_rails_are_paired_and_summed() -> None:
    watts, rails, input_v = parse_pmic(PMIC)
    assert rails == 12 and input_v == 5.085
    assert watts == pytest.approx(1.6523, abs=1e-4)
    fields = dict(PmicPower(lambda: PMIC).read(NOW)[0].fields)
    assert "current_a" not in fields, "the input's current is not known"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "0 rails"),
        (PMIC.replace("_V volt", "_V bolt"), "is no ADC line"),
        ('error=1 error_msg="Command not registered"\n', "is no ADC line"),
        ("\n".join(PMIC.splitlines()[:12]) + "\n", "0 rails"),
    ],
)
def test_what_is_no_pmic_text_has_a_reason(text: str, told: str) -> None:
    with pytest.raises(SensorUnavailable, match=told):
        parse_pmic(text)


def bound_chip(
    root: Path, adapter: str, power: str | None = "3060000\n", shunt_uohm: int | None = 100_000
) -> None:
    device = root / "sys/devices/i2c-1/1-0040"
    folder = root / "sys/class/hwmon/hwmon3"
    device.mkdir(parents=True)
    folder.mkdir(parents=True)
    (root / "sys/devices/i2c-1/name").write_text(f"{adapter}\n")
    (folder / "device").symlink_to(device)
    (folder / "name").write_text("ina219\n")
    (folder / "curr1_input").write_text("600\n")
    (folder / "in1_input").write_text("5100\n")
    if power is not None:
        (folder / "power1_input").write_text(power)
    if shunt_uohm is not None:
        (folder / "shunt_resistor").write_text(f"{shunt_uohm}\n")


@pytest.mark.parametrize("power", ["3060000\n", None])
def test_a_bound_driver_gives_amps_volts_and_watts(tmp_path: Path, power: str | None) -> None:
    bound_chip(tmp_path, "bcm2835 (i2c@7e804000)", power)
    (reader,) = find_hwmon_power(tmp_path)
    sample = reader.read(NOW)[0]
    watts = pytest.approx(3.06)
    assert sample.fields == {"shunt_ohm": 0.1, "current_a": 0.6, "voltage_v": 5.1, "power_w": watts}
    assert dict(sample.tags) == {"sensor": "hwmon:hwmon3-ina219", "sensor_class": "chip"}
    (tmp_path / "sys/class/hwmon/hwmon3/curr1_input").write_text("\n")
    with pytest.raises(SensorUnavailable):
        reader.read(NOW)


@pytest.mark.linux("follows a symbolic link of /sys")
def test_a_driver_on_a_stub_is_marked_and_none_is_a_reason(tmp_path: Path) -> None:
    assert isinstance(find_hwmon_power(tmp_path)[0], Missing)
    bound_chip(tmp_path, "SMBus stub driver")
    assert ("synthetic", "true") in find_hwmon_power(tmp_path)[0].read(NOW)[0].tags


def test_a_driver_that_computes_with_another_shunt_gives_no_watts(tmp_path: Path) -> None:
    bound_chip(tmp_path, "bcm2835 (i2c@7e804000)", shunt_uohm=10_000)  # what ina2xx takes unless it is told
    (reader,) = find_power("hwmon", 1, tmp_path)
    with pytest.raises(SensorUnavailable) as caught:
        reader.read(NOW)
    told = str(caught.value)
    shunt = tmp_path / "sys/class/hwmon/hwmon3/shunt_resistor"
    assert "a shunt of 0.01 Ω, the settings say 0.1 Ω" in told and f"echo 100000 > {shunt}" in told
    shunt.write_text("100000\n")
    assert reader.read(NOW)[0].fields["power_w"] == pytest.approx(3.06), "set meanwhile: it reads"
    shunt.write_text("\n")
    with pytest.raises(SensorUnavailable, match="is no shunt"):
        reader.read(NOW)


def test_the_shunt_of_a_bound_driver_is_that_of_the_settings(tmp_path: Path) -> None:
    bound_chip(tmp_path, "bcm2835 (i2c@7e804000)", shunt_uohm=50_000)
    settings = tmp_path / "power.json"
    settings.write_text('{"sensor": "hwmon", "shunt_ohm": 0.05}')
    (reader,) = find_power("hwmon", 1, tmp_path, settings)
    assert reader.read(NOW)[0].fields["shunt_ohm"] == 0.05
    settings.write_text('{"shunt_ohm": 0.05}')
    with pytest.raises(UsageError, match="is for the sensor ina219, asked for is hwmon"):
        find_power("hwmon", 1, tmp_path, settings)
    with pytest.raises(SensorRefused, match="hwmon is read at each tick"):
        open_sensor(PowerSettings(sensor="hwmon"), Calibration.assumed("A", 0.1, 1.0))


def test_a_driver_that_tells_no_shunt_is_believed_and_its_samples_show_it(tmp_path: Path) -> None:
    bound_chip(tmp_path, "bcm2835 (i2c@7e804000)", shunt_uohm=None)
    fields = find_hwmon_power(tmp_path)[0].read(NOW)[0].fields
    assert fields["power_w"] == pytest.approx(3.06) and "shunt_ohm" not in fields


def write_loads(path: Path, gain: float, offset_a: float, volts: list[float]) -> Path:
    rows = ["true_v,true_a,read_v,read_a"]
    for place, volt in enumerate(volts):
        amps = 0.2 + 0.3 * place
        wobble = 0.0004 * (-1) ** place
        rows.append(f"{volt},{amps},{volt * 1.002 + 0.01},{amps / gain + offset_a + wobble}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_calibration_from_known_loads_corrects_and_says_how_well(tmp_path: Path) -> None:
    loads = calibrate.given(write_loads(tmp_path / "loads.csv", 1.03, 0.005, [4.8, 5.0, 5.1, 5.2, 5.3]))
    made = calibrate.make(PowerSettings(), "board 7", "bench meter, 0.1 %", loads)
    calibrate.store(made, tmp_path / "cal.json")
    read = Calibration.load(tmp_path / "cal.json")
    assert read.current_a(1.0 / 1.03 + 0.005) == pytest.approx(1.0, abs=1e-3)
    assert read.voltage_v(5.0 * 1.002 + 0.01) == pytest.approx(5.0, abs=1e-4)
    assert 1e-4 < read.current.residual < 1e-3 and read.current.n == 5


def test_a_rail_that_did_not_move_teaches_no_gain(tmp_path: Path) -> None:
    loads = calibrate.given(write_loads(tmp_path / "loads.csv", 1.0, 0.0, [5.1, 5.1, 5.11]))
    made = calibrate.make(PowerSettings(), "board 7", "bench meter", loads)
    assert made.voltage.gain == 1.0 and made.voltage.residual < 1e-4
    # 1 % rectangular, of any voltage; grade B is no better in voltage (0.5 % is of its current)
    assert made.voltage.relative == pytest.approx(0.0057735, rel=1e-4), "the data sheet's gain error stays in"
    better = calibrate.make(PowerSettings(grade="B"), "board 7", "bench meter", loads)
    assert better.grade == "B" and better.voltage.relative == made.voltage.relative
    calibrate.store(made, tmp_path / "cal.json")
    assert Calibration.load(tmp_path / "cal.json") == made


def test_loads_that_carry_no_line_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="three different loads"):
        calibrate.make(PowerSettings(), "b", "m", [calibrate.Load(5, 1, 5, 1)] * 3)
    off = calibrate.make(
        PowerSettings(), "b", "m", [calibrate.Load(5, a, 5.0 + a / 9, a / 2) for a in (1, 2, 3)]
    )
    with pytest.raises(CalibrationError, match="implausible"):
        calibrate.store(off, tmp_path / "cal.json")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="not VOLTS,AMPS"):
        calibrate.parse_loads(["5.0"])
    (tmp_path / "x.csv").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="is not a CSV"):
        calibrate.given(tmp_path / "x.csv")
