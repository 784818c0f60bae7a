"""Power settings are checked before hardware is touched; the model runs end to end in real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pqtelemetry.errors import UsageError
from pqtelemetry.ina219.calibration import Calibration, CalibrationError, Line
from pqtelemetry.power.rawfile import read_raw
from pqtelemetry.power.settings import PowerSettings


def test_auto_takes_the_finest_resolution_that_keeps_up() -> None:
    assert PowerSettings(rate_hz=1000).mode.adc == "11bit"
    assert PowerSettings(rate_hz=500).mode.adc == "12bit"
    assert PowerSettings(rate_hz=100).mode.adc == "avg8"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"sensor": "ina260"}, "one of ina219"),
        ({"rate_hz": 2000}, "outside 1 to 1000"),
        ({"adc": "12bit"}, "853 samples a second"),
        ({"address": 0x20}, "no INA219 address"),
        ({"shunt_ohm": 0}, "cannot be"),
        ({"shunt": 0.1}, "no key 'shunt'"),
        ({"bus": "1"}, "bus must be int"),
        ({"bus": True}, "bus must be int"),
        ([], "JSON object"),
    ],
)
def test_settings_that_cannot_work_are_refused(document: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        PowerSettings.from_json(document)


def test_a_calibration_of_another_shunt_or_chip_than_the_settings_say_is_refused(tmp_path: Path) -> None:
    made = Calibration("board 7", "B", 0.05, "2026-01-01", "m", Line(1, 0, 0.002, 9), Line(1, 0, 0.004, 9))
    (tmp_path / "cal.json").write_text(json.dumps(made.to_json()))
    fits = {"calibration": "cal.json", "shunt_ohm": 0.05}
    for document in (fits, {**fits, "grade": "B"}):
        assert PowerSettings.from_json(document).load_calibration(tmp_path) == made
    with pytest.raises(
        CalibrationError, match=r"shunt of 0\.05 Ω, the settings say shunt_ohm 0\.1"
    ) as caught:
        PowerSettings.from_json({"calibration": "cal.json"}).load_calibration(tmp_path)
    assert "calibrate again" in caught.value.hint
    with pytest.raises(CalibrationError, match="a chip of grade B, the settings say grade A"):
        PowerSettings.from_json({**fits, "grade": "A"}).load_calibration(tmp_path)
    assert PowerSettings().uncalibrated().grade == "A"


def run(folder: Path, settings: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = folder / "power.json"
    file.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pqtelemetry", "power", "--settings", str(file)]
    command += ["--out", str(folder / "power.bin"), "--duration-s", "1.5"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_the_model_runs_end_to_end(tmp_path: Path) -> None:
    done = run(tmp_path, {"sensor": "model", "rate_hz": 100})
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["ready"]["sensor_class"] == "model"
    counts = lines[-1]["accounting"]
    assert counts["expected_count"] == counts["got_count"] + counts["late_count"] + counts["lost_count"]
    raw = read_raw(tmp_path / "power.bin")
    assert raw.header["sensor_class"] == "model" and len(raw.samples) == counts["stored_count"] > 0


@pytest.mark.linux("the power sampler runs on Linux alone")
def test_a_bus_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    done = run(tmp_path, {"bus": 99})
    assert done.returncode == 4 and not (tmp_path / "power.bin").exists()
    assert "pqtelemetry:" in done.stderr and "next:" in done.stderr and "Traceback" not in done.stderr
